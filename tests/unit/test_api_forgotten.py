"""Turns that are committed twice, forgotten or discarded, and what every write says when lost."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from ledgerstone import AsyncStore, Store
from ledgerstone.commands import Query
from ledgerstone.errors import InvalidValue, RevisionMoved
from ledgerstone.handlers.all import HANDLERS
from ledgerstone.rules.outcomes import IDS, NEXT_STEPS, SESSIONS


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open("memory://") as store:
        store.sessions.create(id="s")
        yield store


def warned(call: Callable[[], object]) -> list[str]:
    """What the garbage collector says after a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        call()
        gc.collect()
    return [str(one.message) for one in caught if one.category is ResourceWarning]


def test_a_second_commit_answers_the_first_result(store: Store) -> None:
    turn = store.turns.begin("s")
    turn.user("once")
    first = turn.commit()
    assert turn.commit() == first
    assert store.sessions.head("s").revision == 1  # type: ignore[union-attr]
    turn.user("next")
    assert turn.commit().revision == 2


def test_a_second_commit_may_still_give_the_lease_back(store: Store) -> None:
    lease = store.leases.take("s")
    assert lease is not None
    turn = store.turns.begin(lease)
    turn.user("once")
    turn.commit()
    done = turn.commit(release=True)
    assert store.leases.get("s") is None
    assert turn.commit(release=True) == done


def test_an_empty_turn_is_still_a_commit(store: Store) -> None:
    assert store.turns.begin("s").commit().revision == 1


def test_a_forgotten_turn_warns(store: Store) -> None:
    (text,) = warned(lambda: store.turns.begin("s").user("lost"))
    assert (
        text == "a turn of session 's' was filled and never committed; call commit(), or discard()"
    )


def test_a_forgotten_turn_of_an_async_store_warns() -> None:
    async def forget() -> None:
        async with await AsyncStore.open("memory://") as store:
            store.turns.begin("s").user("lost")

    assert len(warned(lambda: asyncio.run(forget()))) == 1


def test_what_is_filled_after_a_commit_and_forgotten_warns(store: Store) -> None:
    def forget() -> None:
        turn = store.turns.begin("s")
        turn.user("kept")
        turn.commit()
        turn.user("lost")

    assert len(warned(forget)) == 1


def committed(store: Store) -> None:
    turn = store.turns.begin("s")
    turn.user("kept")
    turn.commit()


def discarded(store: Store) -> None:
    turn = store.turns.begin("s")
    turn.user("not wanted")
    before = turn.id
    turn.discard()
    assert (turn.messages, turn.id == before) == ([], False)


def left_by_an_error(store: Store) -> None:
    with suppress(KeyError), store.turns.begin("s") as turn:
        turn.user("x")
        raise KeyError


def refused(store: Store) -> None:
    turn = store.turns.begin("s", expected_revision=7)
    turn.user("x")
    with pytest.raises(RevisionMoved):
        turn.commit()


def refused_in_one_call(store: Store) -> None:
    with pytest.raises(InvalidValue):
        store.turns.commit("s", [{"role": "user", "content": "x"}, 7])


def never_filled(store: Store) -> None:
    store.turns.begin("s")


@pytest.mark.parametrize(
    "call", [committed, discarded, left_by_an_error, refused, refused_in_one_call, never_filled]
)
def test_no_warning(store: Store, call: Callable[[Store], None]) -> None:
    assert warned(lambda: call(store)) == []


def test_every_write_has_a_next_step() -> None:
    writes = {kind for kind in HANDLERS if not issubclass(kind, Query)}
    assert {kind.__name__ for kind in writes} == set(NEXT_STEPS)
    assert IDS.keys() | SESSIONS.keys() <= NEXT_STEPS.keys()
