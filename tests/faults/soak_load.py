"""Mixed load for a soak: every noun of the public API, and nothing that is kept grows.

One process and one backend: threads call a `Store`, tasks an `AsyncStore`. Each step is a coroutine
that awaits `of(...)`, so both share one copy of it. Sessions have a fixed number of ids and are
purged at the end of a step; memories and blobs have a fixed number of keys. Only the long sessions
grow, and only where the backend keeps them on a disk.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import msgspec

from ledgerstone import AsyncStore, Store, assistant, ids, tool_call, user
from ledgerstone.adapters.sync_async import each, of
from ledgerstone.clock import monotonic_s
from ledgerstone.errors import LeaseHeld
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.processes import Say
from ledgerstone.trampoline import run_now
from tests.faults.soak_meter import Times, take_sample, use_one_arena

THREADS = 2
TASKS = 2
LONG = "long"
LONG_TURNS_MAX = 50
"""Turns after which a backend in memory begins the long session anew."""
COMPACTED = 100
"""Messages of the long session between two summaries."""
KEYS = 20
DIMENSIONS = 16
BLOBS = 20
BLOB_BYTES = 4_000
TENANTS = 3
TEXT = "The fjord line leaves at 9:40 from platform two. " * 4
FOLLOWED = 500
"""Entries that one follower reads before another goes on."""
GC_STEPS = 200
"""Steps of one worker between two garbage collections of blobs."""
NEW_BLOBS = 4
"""Rounds of one worker between two new blobs."""
GC_AGE_S = 10
"""Minimum age of a blob that is collected, in seconds."""

AnyStore: TypeAlias = Any
Step: TypeAlias = Callable[["Worker"], Coroutine[Any, Any, None]]


@asynccontextmanager
async def entered(block: Any) -> AsyncIterator[Any]:
    """A context manager of either face."""
    if hasattr(block, "__aenter__"):
        async with block as value:
            yield value
    else:
        with block as value:
            yield value


class Worker:
    """One thread or task: a store, its own randomness, and how many steps it has done."""

    def __init__(self, name: str, store: AnyStore, seed: int, *, in_memory: bool) -> None:
        self.name = name
        self.root = store
        self.in_memory = in_memory
        self.random = Random(f"{seed} {name}")
        self.steps = 0
        self.store = store

    @property
    def round(self) -> int:
        """How often every kind of step was done."""
        return self.steps // len(STEPS)

    async def step(self) -> None:
        """Do the next kind of step; each round of kinds is for another tenant."""
        self.store = self.root.for_tenant(f"tenant-{self.round % TENANTS}")
        await STEPS[self.steps % len(STEPS)](self)
        self.steps += 1
        if self.steps % GC_STEPS == 0:
            await of(self.store.admin.gc(older_than_s=GC_AGE_S))


async def long_session(worker: Worker) -> None:
    """A turn under a lease in the one session that grows, and the reads that go with it."""
    store = worker.root
    session = f"{LONG}-{worker.name}"
    await of(store.sessions.ensure(session))
    async with (
        entered(store.leases.hold(session, ttl_s=60)) as lease,
        entered(store.turns.begin(lease)) as turn,
    ):
        turn.user(TEXT)
        turn.assistant(f"{TEXT}{worker.steps}", model="m-1")
        turn.use("m-1", {"input": 120, "output": 40})
        turn.state(step=worker.steps)
    newest = await of(store.messages.last(session, 20))
    await of(store.messages.context(session, budget_tokens=2_000))
    count = await of(store.messages.count(session))
    await of(store.sessions.state(session))
    if count % COMPACTED < 2:
        # As an agent does: the context of a session without a summary is its whole path.
        await of(store.messages.compact(session, "Oslo by train", tail_start=newest[-1]))
    if worker.in_memory and count > 2 * LONG_TURNS_MAX:
        await of(store.sessions.purge(session))


async def queue(worker: Worker) -> None:
    """Work that is enqueued twice, taken once, and completed by a turn."""
    store = worker.store
    session = await of(store.sessions.create(id=f"queue-{worker.name}"))
    for _ in range(2):
        await of(store.work.enqueue(session, {"task": TEXT}, key="once", queue=worker.name))
    async with (
        entered(store.work.hold(queue=worker.name)) as (lease, claim),
        entered(store.turns.begin(lease)) as turn,
    ):
        turn.assistant("done")
        turn.complete(claim)
    await of(store.sessions.purge(session))


async def memory(worker: Worker) -> None:
    """Values under a fixed number of keys, some with a vector, some that expire."""
    store, random = worker.store, worker.random
    key = f"key-{worker.round // TENANTS % KEYS}"
    await of(store.memories.put(("users", "ada"), key, {"by": TEXT}))
    await of(store.memories.put("short", ids.new_id(), {"by": "train"}, ttl_s=0.5))
    vector = [random.random() for _ in range(DIMENSIONS)]
    await of(store.memories.put("vectors", key, {"at": worker.steps}, vector=vector, model="e-1"))
    await of(store.memories.search("vectors", vector=vector, model="e-1", limit=5))
    await of(store.memories.search("users", filter={"by": TEXT}, limit=5))
    await of(store.memories.sweep())


async def blobs(worker: Worker) -> None:
    """Bytes that come again, and new ones that a purged session leaves to the collector."""
    store = worker.store
    same = bytes([worker.round % BLOBS]) * BLOB_BYTES
    blob = await of(store.blobs.put(same, media_type="text/plain"))
    assert await of(store.blobs.get(blob)) == same
    session = await of(store.sessions.create(id=f"blobs-{worker.name}"))
    new = worker.random.randbytes(BLOB_BYTES) if worker.round % NEW_BLOBS == 0 else same
    photo = await of(store.attachments.put(session, new, media_type="image/png"))
    async with entered(store.turns.begin(session)) as turn:
        turn.user(["Where is this?", {"type": "image", "blob": photo.id}])
    await of(store.sessions.purge(session))


async def drafts(worker: Worker) -> None:
    """An answer that streams in, in a session that is purged afterwards."""
    store = worker.store
    session = await of(store.sessions.create(id=f"drafts-{worker.name}", user="ada"))
    async with (
        entered(store.turns.begin(session)) as turn,
        entered(turn.draft(model="m-1")) as draft,
    ):
        for word in TEXT.split(" "):
            draft.write(word + " ")
    await of(store.drafts.list(session))
    await of(store.sessions.purge(session))


async def tickets(worker: Worker) -> None:
    """A run that asks, is answered, calls its tool and ends."""
    store = worker.store
    session = await of(store.sessions.create(id=f"tickets-{worker.name}", user="ada"))
    run = await of(store.runs.create(session, agent="bookkeeper", input={"eur": 120}))
    async with entered(store.turns.begin(session, run_id=run)) as turn:
        turn.assistant([tool_call("pay", {"eur": 120}, id="c1")])
        ticket = turn.ask("c1", reason="money", expires_s=60)
    await of(store.tickets.inbox(user="ada"))
    await of(store.tickets.resolve(ticket, "approve", by="ada", queue="wakes"))
    lease = await of(store.leases.take(session))
    async with entered(store.executions.run(lease, ticket=ticket)) as call:
        call.result = "paid"
    async with entered(store.turns.begin(lease, run_id=run)) as turn:
        turn.tool("c1", call.result)
        turn.run("done")
    await of(store.leases.release(lease))
    await of(store.sessions.purge(session))


async def reads(worker: Worker) -> None:
    """Appends, lists, pages, a fork and sums, over few and short sessions."""
    store, session = worker.store, f"reads-{worker.name}"
    await of(store.messages.append(session, user("hi"), assistant(TEXT), create=True))
    fork = await of(store.sessions.fork(session, new_id=f"fork-{worker.name}"))
    async for one in each(store.messages.iter(fork)):
        assert one.role in ("user", "assistant")
    await of(store.sessions.load(session))
    await of(store.sessions.list(limit=20))
    await of(store.usage.summary())
    await of(store.feed.read(after="now"))
    await of(store.sessions.purge(fork))
    await of(store.sessions.purge(session))


async def refusals(worker: Worker) -> None:
    """What is refused leaves nothing behind: a traceback keeps frames, and frames keep values."""
    store = worker.store
    session = await of(store.sessions.create(id=f"refusals-{worker.name}"))
    lease = await of(store.leases.take(session, owner="one"))
    try:
        async with entered(store.leases.hold(session, owner="two")):
            raise AssertionError("two owners")
    except LeaseHeld:
        await of(store.leases.release(lease))
    await of(store.sessions.purge(session))


STEPS: tuple[Step, ...] = (
    long_session,
    queue,
    memory,
    blobs,
    drafts,
    tickets,
    reads,
    refusals,
)


class Load:
    """All workers and followers on one backend, from `start` to `stop`."""

    def __init__(self, backend: Backend, seed: int, *, leak_bytes: int = 0) -> None:
        in_memory = backend.capabilities.name in ("memory", "file")
        self.store, self.astore = Store(backend), AsyncStore(backend)
        self._blocking = [
            Worker(f"thread-{n}", self.store, seed, in_memory=in_memory) for n in range(THREADS)
        ]
        self._async = [
            Worker(f"task-{n}", self.astore, seed, in_memory=in_memory) for n in range(TASKS)
        ]
        self._leak_bytes = leak_bytes
        self._leaked: list[bytes] = []
        self._ending = threading.Event()
        self.followed = 0
        self.failures: list[str] = []

    @property
    def steps(self) -> int:
        return sum(worker.steps for worker in (*self._blocking, *self._async))

    def wait(self, seconds: float) -> None:
        """Until so much time has passed, or a worker failed."""
        self._ending.wait(seconds)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The load while the block runs; every thread of it has ended afterwards."""
        works = [partial(self._steps, worker) for worker in self._blocking]
        works.append(partial(asyncio.run, self._tasks()))
        workers = [threading.Thread(target=self._live, args=(work,)) for work in works]
        follower = threading.Thread(target=self._live, args=(self._follow,))
        for thread in (*workers, follower):
            thread.start()
        try:
            yield
        finally:
            self._ending.set()
            for thread in workers:
                thread.join()
            self.store.messages.append(LONG, user("wake the follower"), create=True)
            follower.join()

    def _live(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:
            self.failures.append("".join(traceback.format_exception(error)))
            self._ending.set()

    def _steps(self, worker: Worker) -> None:
        while not self._ending.is_set():
            run_now(worker.step())
            self._leak()

    async def _tasks(self) -> None:
        async with asyncio.TaskGroup() as group:
            follower = group.create_task(self._afollow())
            await asyncio.gather(*map(self._asteps, self._async))
            follower.cancel()

    async def _asteps(self, worker: Worker) -> None:
        while not self._ending.is_set():
            await worker.step()
            self._leak()
            await asyncio.sleep(0)

    def _follow(self) -> None:
        """Follow for a while, then from the last cursor with a new follower."""
        cursor: str = "now"
        while not self._ending.is_set():
            for n, entry in enumerate(self.store.feed.follow(after=cursor, poll_s=0.5)):
                self.followed += 1
                cursor = entry.cursor
                if n == FOLLOWED or self._ending.is_set():
                    break

    async def _afollow(self) -> None:
        async for _ in self.astore.feed.follow(after="now"):
            self.followed += 1

    def _leak(self) -> None:
        """Keep bytes for ever: the leak of the negative control."""
        if self._leak_bytes:
            self._leaked.append(bytes(self._leak_bytes))


def soak(
    say: Say, make: Callable[[], Backend], log: str, times: Times, seed: int, leak_bytes: int
) -> None:
    """Run the load in this process and say a sample every `times.every_s` after the warm-up."""
    use_one_arena()
    with closing(make()) as backend:
        load = Load(backend, seed, leak_bytes=leak_bytes)
        start_s = monotonic_s()
        with load.running():
            load.wait(times.warm_up_s)
            while not load.failures and (at_s := monotonic_s() - start_s) < times.end_s:
                sample = take_sample(at_s, load.steps, Path(log), load.store, load.astore)
                say(msgspec.msgpack.encode(sample))
                load.wait(times.every_s)
        if load.failures:
            raise AssertionError("\n".join(load.failures))
