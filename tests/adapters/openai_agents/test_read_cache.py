"""A session object that has read before sees what one that never did sees, whatever happened."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ledgerstone import AsyncStore, Usage, formats
from ledgerstone.adapters.openai_agents import LedgerSession, read_cache
from ledgerstone.adapters.openai_agents.history import BranchHistory
from ledgerstone.adapters.openai_agents.usage import Entry

Change = Callable[["Talk"], Awaitable[object]]


class Talk:
    """A session that several write to, in every way there is."""

    def __init__(self, store: AsyncStore) -> None:
        self.store = store
        self.ours = LedgerSession(store, "s")
        self.chance = random.Random(7)
        self.count = 0

    def session(self, branch: str = "main") -> LedgerSession:
        return LedgerSession(self.store, "s", branch=branch)

    async def looked(self) -> list[Any]:
        """What the object that has read before sees; it must be what another one sees."""
        items = await self.ours.get_items()
        assert items == await self.session().get_items()
        return items

    def item(self) -> Any:
        self.count += 1
        said: dict[str, Any] = {"type": "input_text", "text": f"say {self.count}"}
        if self.chance.random() < 0.02:
            # What a store keeps, and a packed copy cannot say.
            said["more"] = self.chance.choice([1 << 70, "\ud800"])
        return {"role": "user", "content": [said]}

    async def some(self) -> str | None:
        found = await self.store.messages.history("s")
        return self.chance.choice(found).id if found else None

    async def add(self) -> None:
        await self.session().add_items([self.item() for _ in range(self.chance.randint(1, 3))])

    async def pop(self) -> None:
        await self.session().pop_item()

    async def clear(self) -> None:
        await self.session().clear_session()

    async def purge(self) -> None:
        await LedgerSession(self.store, "s", on_clear="purge").clear_session()
        for _ in range(self.chance.randint(0, 9)):
            await self.add()

    async def known(self) -> None:
        """A history that the object knows."""
        await self.replace()
        for _ in range(2):
            await self.looked()

    async def other_words(self) -> None:
        """With a system prompt in each request, which is told once."""
        await self.known()
        for text in ("hm", "well"):
            said = [
                {"part_kind": "system-prompt", "content": "Be brief."},
                {"part_kind": "user-prompt", "content": text},
            ]
            made = formats.keep("pydantic-ai", {"kind": "request", "parts": said})
            await self.store.messages.append("s", made)
            await self.looked()

    async def amend(self) -> None:
        if id := await self.some():
            await self.store.messages.amend(id, session="s", parts=[f"amended {self.count}"])

    async def hide(self) -> None:
        if id := await self.some():
            await self.store.nodes.tombstone("s", [id])

    async def move(self) -> None:
        if id := await self.some():
            await self.store.branches.move("s", "main", to=id)

    async def beside(self) -> None:
        """An append that leads the branch another way, which is as long."""
        await self.known()
        first = (await self.store.messages.history("s"))[0]
        made = formats.keep("openai", self.item(), parent=first.id)
        await self.store.messages.append("s", made)

    async def anew(self) -> None:
        """The same id at the same place, after another beginning."""
        for _ in range(2):
            await LedgerSession(self.store, "s", on_clear="purge").clear_session()
            same = formats.keep("openai", {"role": "user", "content": "same"}, id="same")
            made = formats.keep("openai", self.item())
            await self.store.messages.append("s", made, same, create=True)
            for _ in range(2):
                await self.looked()

    async def elsewhere(self) -> None:
        if await self.some():
            name = f"b{self.count}"
            await self.session().create_branch(name, items=0)
            await self.session(name).add_items([self.item()])
            self.count += 1

    async def replace(self) -> None:
        await self.session()._atomic_replace_items([self.item(), self.item()])

    async def use(self) -> None:
        await self.session().keep_usage(Entry("m", Usage(input=1, output=1), None))

    async def vacuum(self) -> None:
        if await self.store.sessions.get("s"):
            await self.store.admin.vacuum("s")


CHANGES: list[Change] = [
    *[Talk.add] * 12,
    *[Talk.use] * 3,
    *(Talk.pop, Talk.clear, Talk.purge, Talk.other_words, Talk.amend, Talk.hide, Talk.move),
    *(Talk.elsewhere, Talk.beside, Talk.anew, Talk.replace, Talk.vacuum),
]


def test_the_same_as_for_who_reads_for_the_first_time(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            talk = Talk(store)
            for _ in range(150):
                await talk.chance.choice(CHANGES)(talk)
                if talk.chance.random() < 0.7:
                    for item in await talk.looked():
                        item["content"] = "changed by the caller"

    asyncio.run(main())


def test_only_what_is_new_is_read(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            talk = Talk(store)
            ours = talk.ours
            await talk.add()
            for _ in range(2):
                await ours.get_items()
            await talk.add()
            await talk.use()
            wanted = await talk.session().get_items()
            with monkeypatch.context() as patch:
                patch.delattr(BranchHistory, "newest")
                assert await ours.get_items() == wanted
                assert await ours.get_items() == wanted
            await talk.pop()
            with monkeypatch.context() as patch:
                patch.delattr(BranchHistory, "newest")
                with pytest.raises(AttributeError):
                    await ours.get_items()
            other = await ours.create_branch("b", items=1)
            assert await other.get_items() == wanted[:1]

    asyncio.run(main())


@pytest.mark.parametrize("bound", ["ITEMS_MAX", "COMMITS_MAX"])
def test_beyond_the_bounds_all_is_read(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(read_cache, bound, 3)

    async def main() -> None:
        async with AsyncStore.open("memory://") as store:
            talk = Talk(store)
            for _ in range(6):
                await talk.looked()
                for _ in range(talk.chance.randint(0, 4)):
                    await talk.add()
                await talk.looked()

    asyncio.run(main())
