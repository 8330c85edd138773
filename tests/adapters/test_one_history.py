"""Frameworks that speak in turn in one session: nothing that was said is displaced or doubled."""

from __future__ import annotations

import asyncio
from itertools import permutations

import pytest

from ledgerstone.adapters.sync_async import of
from tests.adapters.conftest import decided_by_the_adapter, opened
from tests.adapters.speakers import MORE, SPEAKERS, AnyStore, Speaker, session_for

ALL = {**SPEAKERS, **MORE}
ROUNDS = 3
PAIRS = [
    *permutations(SPEAKERS, 2),
    *((one, other) for one in MORE for other in SPEAKERS),
    *((other, one) for one in MORE for other in SPEAKERS),
]


async def displaced(store: AnyStore, session: str, said: list[str]) -> list[str]:
    """What differs between the session's history and what was said."""
    history = [one.text for one in await of(store.messages.history(session))]
    return [] if history == said else [f"said {said}", f"history {history}"]


async def alternate(store: AnyStore, names: tuple[str, ...], *, anew: bool) -> None:
    """Let everybody ask in turn; `anew`: by a process that knows nothing of the session."""
    session = session_for(names[0])
    speakers = {name: ALL[name](store, session) for name in names}
    said: list[str] = []
    for n in range(ROUNDS):
        for name in names:
            speaker: Speaker = ALL[name](store, session) if anew else speakers[name]
            question = f"{n} of {name}?"
            await speaker.ask(question)
            assert speaker.seen[-1] == len(said) + 1, "the model is shown everything before"
            said += [question, f"re: {question}"]
            assert await displaced(store, session, said) == []
    assert (await of(store.admin.verify())).ok


@pytest.mark.parametrize("names", PAIRS, ids="+".join)
def test_two_frameworks_that_read_anew(store_url: str, colour: str, names: tuple[str, str]) -> None:
    async def go() -> None:
        async with opened(store_url, colour) as store:
            await alternate(store, names, anew=True)

    asyncio.run(go())


# What a speaker remembers between its turns does not depend on where the store is.
@decided_by_the_adapter
@pytest.mark.parametrize("names", PAIRS, ids="+".join)
def test_two_frameworks_that_remember(store_url: str, colour: str, names: tuple[str, str]) -> None:
    async def go() -> None:
        async with opened(store_url, colour) as store:
            await alternate(store, names, anew=False)

    asyncio.run(go())


@pytest.mark.parametrize("first", SPEAKERS)
def test_all_frameworks_in_turn(store_url: str, colour: str, first: str) -> None:
    names = list(SPEAKERS)
    begin = names.index(first)

    async def go() -> None:
        async with opened(store_url, colour) as store:
            await alternate(store, tuple(names[begin:] + names[:begin]), anew=False)

    asyncio.run(go())
