"""Ledgerstone as a contender: the public API only, blocking and async."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.big import MESSAGES_PER_TURN
from bench.contender import History
from bench.floor_queue import payload
from bench.work import MODEL, TOOL, Turn
from ledgerstone import AsyncStore, Message, Session, Store, Usage, tool_call
from ledgerstone.records.leases import Lease

FILLERS: Final = 64
LEASE_S: Final = 900.0
"""Longer than a run of the queue: what ends in between would be no bench."""


def session_id(number: int) -> str:
    return f"bench-{number:08d}"


class Ours:
    """The blocking store, in the caller's thread."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.leases: dict[int, Lease] = {}

    def create(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.store.sessions.create(id=session_id(number))

    def attach(self, numbers: Sequence[int]) -> None:
        """There is nothing to get hold of."""

    def commit(self, number: int, turn: Turn) -> None:
        draft = self.store.turns.begin(session_id(number))
        draft.run("done")  # first, so that the messages carry its id
        draft.user(turn.user)
        draft.assistant([turn.thought, tool_call(TOOL, turn.arguments, id=turn.call_id)])
        draft.tool(turn.call_id, turn.result, tool_name=TOOL)
        draft.assistant(turn.answer)
        draft.use(MODEL, Usage(turn.input_tokens, turn.output_tokens))
        draft.commit()

    def tidy(self) -> None:
        """The store's own writer checkpoints."""

    def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        raise RuntimeError("filled by the async face, whose file this one copies")

    def jobs(self, numbers: Sequence[int], batches: int, size: int) -> int:
        """Enqueue, claim under a lease, complete with a turn: three commits per batch."""
        for _ in range(batches):
            for number in numbers:
                if number not in self.leases:
                    lease = self.store.leases.take(session_id(number), ttl_s=LEASE_S)
                    self.leases[number] = _granted(lease)
                lease = self.leases[number]
                payloads = [payload(place) for place in range(size)]
                self.store.work.enqueue(session_id(number), *payloads)
                claim = self.store.work.claim(lease)
                if claim is None:
                    raise RuntimeError("nothing to claim")
                draft = self.store.turns.begin(lease)
                draft.complete(claim)
                draft.commit()
        return batches * len(numbers) * size

    def serve(self) -> Sequence[str]:
        """What a worker does: take a session that has work, and complete it with a turn."""
        taken = self.store.work.take()
        if taken is None:
            raise RuntimeError("nothing to take")
        draft = self.store.turns.begin(taken.lease)
        draft.complete(taken.claim)
        draft.commit(release=True)
        return [taken.lease.session]

    def requeue(self, served: Sequence[str]) -> None:
        """So that the line stays as long as it is."""
        for session in served:
            self.store.work.enqueue(session, payload(0))

    def idle(self, queue: str) -> Sequence[str]:
        """A look at a queue that has work, but none that is due."""
        if self.store.work.take(queue=queue) is not None:
            raise RuntimeError("something was due")
        return ()

    def load(self, number: int) -> Sequence[Message]:
        return self.store.messages.history(session_id(number))

    def last(self, number: int, count: int) -> Sequence[Message]:
        return self.store.messages.last(session_id(number), count)

    def newest(self, user: str, count: int) -> Sequence[Session]:
        return self.store.sessions.list(user=user, limit=count).items

    def stats(self, number: int, messages: int) -> tuple[int, int]:
        """Counts and tokens of a session; wrong ones are refused, fast or not."""
        head = self.store.sessions.head(session_id(number))
        if head is None or head.messages != messages or len(head.ledger) != 1:
            raise RuntimeError(f"wrong stats: {head}")
        return head.messages, head.ledger[0].usage.total_tokens

    def totals(self, number: int, messages: int) -> tuple[int]:
        """What `sessions.stats` says; every use must be in it, once."""
        found = self.store.sessions.stats(session_id(number))
        if found.messages != messages or found.calls * MESSAGES_PER_TURN != messages:
            raise RuntimeError(f"wrong totals: {found}")
        return (found.usage.total_tokens,)

    def summary(self, number: int, messages: int) -> tuple[int]:
        """What one session used per model and day."""
        lines = self.store.usage.summary(by=("model", "day"), session=session_id(number))
        if sum(line.calls for line in lines) * MESSAGES_PER_TURN != messages:
            raise RuntimeError(f"wrong summary: {lines}")
        return (len(lines),)

    def counted(self, number: int, messages: int) -> tuple[int]:
        found = self.store.messages.count(session_id(number))
        if found != messages:
            raise RuntimeError(f"wrong count: {found}")
        return (found,)

    def close(self) -> None:
        self.store.close()


class OursAsync:
    """The async store, from one event loop."""

    def __init__(self, store: AsyncStore) -> None:
        self.store = store
        self.leases: dict[int, Lease] = {}

    async def create(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            await self.store.sessions.create(id=session_id(number))

    def attach(self, numbers: Sequence[int]) -> None:
        """There is nothing to get hold of."""

    async def commit(self, number: int, turn: Turn) -> None:
        draft = self.store.turns.begin(session_id(number))
        draft.run("done")  # first, so that the messages carry its id
        draft.user(turn.user)
        draft.assistant([turn.thought, tool_call(TOOL, turn.arguments, id=turn.call_id)])
        draft.tool(turn.call_id, turn.result, tool_name=TOOL)
        draft.assistant(turn.answer)
        draft.use(MODEL, Usage(turn.input_tokens, turn.output_tokens))
        await draft.commit()

    def tidy(self) -> None:
        """The store's own writer checkpoints."""

    async def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        """Sessions side by side."""
        await self.create([number for number, _ in histories])
        queue = list(histories)

        async def deepen() -> int:
            count = 0
            while queue:
                number, depth = queue.pop()
                for place in range(depth):
                    await self.commit(number, turns[(number + place) % len(turns)])
                count += depth
            return count

        return sum(await asyncio.gather(*(deepen() for _ in range(FILLERS))))

    async def jobs(self, numbers: Sequence[int], batches: int, size: int) -> int:
        """As the blocking one, in all sessions at once."""

        async def session(number: int) -> None:
            if number not in self.leases:
                lease = await self.store.leases.take(session_id(number), ttl_s=LEASE_S)
                self.leases[number] = _granted(lease)
            lease = self.leases[number]
            for _ in range(batches):
                payloads = [payload(place) for place in range(size)]
                await self.store.work.enqueue(session_id(number), *payloads)
                claim = await self.store.work.claim(lease)
                if claim is None:
                    raise RuntimeError("nothing to claim")
                draft = self.store.turns.begin(lease)
                draft.complete(claim)
                await draft.commit()

        await asyncio.gather(*(session(number) for number in numbers))
        return batches * len(numbers) * size

    async def load(self, number: int) -> Sequence[Message]:
        return await self.store.messages.history(session_id(number))

    async def last(self, number: int, count: int) -> Sequence[Message]:
        return await self.store.messages.last(session_id(number), count)

    async def close(self) -> None:
        await self.store.close()


def open_blocking(path: Path) -> Ours:
    return Ours(Store.open(str(path)))


async def open_async(path: Path) -> OursAsync:
    return OursAsync(await AsyncStore.open(str(path)))


def _granted(lease: Lease | None) -> Lease:
    if lease is None:
        raise RuntimeError("somebody else holds the lease")
    return lease
