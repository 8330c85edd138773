"""Cancelling whoever waits: at every await, and at random moments. Nothing is ever half done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import apsw
import pytest

from ledgerstone import AsyncStore, user
from ledgerstone.api.turn import AsyncTurn
from ledgerstone.testing.faults.cancels import MODES, Mode, cut_everywhere
from ledgerstone.testing.scoreboard import Scale, Scoreboard

pytestmark = pytest.mark.faults

SETTLE_S = 5.0
RANDOM_DELAY_S = 0.004

Check = Callable[[AsyncStore, str], Awaitable[None]]
both_modes = pytest.mark.parametrize("mode", MODES)


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[AsyncStore]:
    """A store that must be well afterwards: verify is clean and nobody holds a transaction."""
    async with AsyncStore.open(path) as store:
        yield store
        await settled(lambda: _no_transaction(path))
        verified = await store.admin.verify()
        assert verified.ok, verified.defects


async def settled(check: Callable[[], bool | Awaitable[bool]]) -> None:
    """Work that nobody waits for any more may still be under way: give it a moment."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + SETTLE_S
    while True:
        found = check()
        if found if isinstance(found, bool) else await found:
            return
        assert loop.time() < end_s, "it never settled"
        await asyncio.sleep(0.002)


def _no_transaction(path: Path) -> bool:
    """Whether the whole log can be moved into the file: nobody reads or writes."""
    connection = apsw.Connection(str(path))
    try:
        # A connection that has read nothing yet does not know that there is a log.
        connection.execute("PRAGMA schema_version").fetchall()
        left, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        return left == moved == 0
    except apsw.BusyError:
        return False
    finally:
        connection.close()


async def texts(store: AsyncStore, session: str) -> list[str]:
    return [message.text for message in await store.messages.history(session)]


# --- at every await


@both_modes
def test_an_append(tmp_path: Path, mode: Mode, scoreboard: Scoreboard) -> None:
    """All messages of the call or none, and the next append follows."""

    with scoreboard.line(f"cancelled at every await: append, {mode}", "sqlite") as line:

        async def main() -> int:
            async with opened(tmp_path / "store.db") as store:

                async def append(n: int) -> None:
                    await store.messages.append(f"s{n}", user("one"), user("two"), create=True)

                cuts = 0
                async for cut in cut_everywhere(append, mode):
                    await store.messages.append(f"s{cut.at}", user("three"), create=True)
                    found = await texts(store, f"s{cut.at}")
                    assert found in (["three"], ["one", "two", "three"])
                    assert cut.cancelled or len(found) == 3
                    cuts += 1
                return cuts

        line.n = asyncio.run(main())
        assert line.n >= 2


@both_modes
@pytest.mark.parametrize("leased", [False, True], ids=["free", "leased"])
def test_a_commit_that_is_repeated(
    tmp_path: Path, mode: Mode, leased: bool, scoreboard: Scoreboard
) -> None:
    """The same turn object commits again and is there once, whether or not the first one was."""

    with scoreboard.line(
        f"cancelled at every await: commit, {'leased' if leased else 'free'}, {mode}", "sqlite"
    ) as line:

        async def main() -> set[bool]:
            replays = set()
            async with opened(tmp_path / "store.db") as store:
                turns: dict[int, AsyncTurn] = {}

                async def commit(n: int) -> None:
                    turn = turns[n] = store.turns.begin(f"s{n}", create=True)
                    if leased:
                        await store.sessions.ensure(f"s{n}")
                        turn.lease = await store.leases.take(f"s{n}", owner="me")
                    turn.user("one")
                    turn.node("event", {"n": 1})
                    await turn.commit(release=leased)

                async for cut in cut_everywhere(commit, mode):
                    if not cut.cancelled:
                        break
                    line.n += 1
                    turn, session = turns[cut.at], f"s{cut.at}"
                    if leased and turn.lease is None:
                        await store.sessions.ensure(session)
                        turn.lease = await store.leases.take(session, owner="me")
                        turn.user("one")
                        turn.node("event", {"n": 1})
                    answer = await turn.commit(release=leased)
                    replays.add(answer.replayed)
                    assert answer.revision == 1
                    assert len(await store.nodes.path(session)) == 2
                    assert [info.turn for info in await store.turns.list(session)] == [answer.turn]
                    assert await store.leases.get(session) is None
            return replays

        replays = asyncio.run(main())
        assert True in replays or mode == "early"


@both_modes
def test_a_hold_leaves_no_lease(tmp_path: Path, mode: Mode, scoreboard: Scoreboard) -> None:
    """Cancelled on the way in, inside or on the way out: the next worker gets in at once."""

    with scoreboard.line(f"cancelled at every await: hold, {mode}", "sqlite") as line:

        async def main() -> None:
            async with opened(tmp_path / "store.db") as store:

                async def work(n: int) -> None:
                    await store.sessions.ensure(f"s{n}")
                    async with store.leases.hold(f"s{n}", ttl_s=60) as lease:
                        turn = store.turns.begin(lease)
                        turn.user("one")
                        await turn.commit()
                        await asyncio.sleep(0)

                leaked = []
                async for cut in cut_everywhere(work, mode):
                    line.n += 1
                    if await leaks(store, f"s{cut.at}"):
                        leaked.append(cut.at)
                    else:
                        assert await texts(store, f"s{cut.at}") in ([], ["one"])
                line.violations += [f"await {at}: the lease stayed for its 60 s" for at in leaked]

        asyncio.run(main())


async def leaks(store: AsyncStore, session: str) -> bool:
    """Whether a lease is still there after everything under way had time to end."""
    await store.sessions.ensure(session)  # Writes are carried out in order: a barrier.
    for _ in range(50):
        if await store.leases.get(session) is None:
            return False
        await asyncio.sleep(0.005)
    return True


@both_modes
def test_a_draft(tmp_path: Path, mode: Mode, scoreboard: Scoreboard) -> None:
    """What was streamed is found as a draft or not yet there, and the session goes on."""

    with scoreboard.line(f"cancelled at every await: draft, {mode}", "sqlite") as line:

        async def main() -> None:
            async with opened(tmp_path / "store.db") as store:

                async def stream(n: int) -> None:
                    async with store.turns.begin(f"s{n}", create=True) as turn:
                        turn.user("question")
                        async with turn.draft(model="m") as draft:
                            draft.write("x" * 3000)
                            await asyncio.sleep(0.003)
                            draft.write("the end")

                async for cut in cut_everywhere(stream, mode):
                    line.n += 1
                    session = f"s{cut.at}"
                    # What was cancelled is in, or will never be.
                    await store.sessions.ensure(session)
                    found = await texts(store, session)
                    drafts = await store.drafts.list(session)
                    assert found in ([], ["question", "x" * 3000 + "the end"])
                    assert not (found and drafts), "a committed draft is gone"
                    assert len(drafts) <= 1
                    turn = store.turns.begin(session, create=True)
                    for draft in drafts:
                        turn.adopt(draft, finish_reason="interrupted")
                    turn.user("next")
                    await turn.commit()
                    assert await store.drafts.list(session) == []

        asyncio.run(main())


@both_modes
def test_reads(tmp_path: Path, mode: Mode, scoreboard: Scoreboard) -> None:
    """A cancelled read leaves no snapshot open; `opened` checks that."""

    with scoreboard.line(f"cancelled at every await: reads, {mode}", "sqlite") as line:

        async def main() -> None:
            async with opened(tmp_path / "store.db") as store:
                await store.messages.append("s", *(user(f"{n}") for n in range(20)), create=True)

                async def read(n: int) -> None:
                    assert len(await store.messages.history("s")) >= 20
                    assert [one async for one in store.messages.iter("s")]
                    assert await store.sessions.head("s") is not None
                    assert (await store.admin.verify("s")).ok

                async for cut in cut_everywhere(read, mode):
                    line.n += 1
                    await store.messages.append("s", user(f"after {cut.at}"))

        asyncio.run(main())


@both_modes
def test_opening_and_closing(tmp_path: Path, mode: Mode, scoreboard: Scoreboard) -> None:
    """A store that was opened for nobody, or half closed, is in nobody's way."""

    with scoreboard.line(f"cancelled at every await: open and close, {mode}", "sqlite") as line:

        async def main() -> None:
            path = tmp_path / "store.db"

            async def visit(n: int) -> None:
                async with AsyncStore.open(path) as store:
                    await store.sessions.ensure(f"s{n}")

            async for cut in cut_everywhere(visit, mode):
                line.n += 1
                async with opened(path) as store:
                    await store.messages.append(f"s{cut.at}", user("one"), create=True)
                    assert await texts(store, f"s{cut.at}") == ["one"]

        asyncio.run(main())


# --- at random moments


def test_random_cancels(tmp_path: Path, seed: int, scale: Scale, scoreboard: Scoreboard) -> None:
    """Tasks are cancelled while others go on; every turn is then repeated and is there once."""
    with scoreboard.line("cancelled at random moments: commits", "sqlite", seed) as line:
        random, cancels = Random(seed), scale(150, 3_000)

        async def main() -> tuple[int, int]:
            cancelled = replayed = 0
            async with opened(tmp_path / "store.db") as store:
                await store.sessions.ensure("shared")
                for n in range(cancels):
                    turn = store.turns.begin("shared", id=f"t{n}")
                    turn.user(f"{n}")
                    turn.node("event", {"n": n})
                    neighbour = asyncio.create_task(_append(store, f"neighbour {n}"))
                    task = asyncio.create_task(turn.commit())
                    await asyncio.sleep(random.uniform(0, RANDOM_DELAY_S))
                    task.cancel()
                    try:
                        await task
                    except asyncio.CancelledError:
                        cancelled += 1
                        replayed += (await turn.commit()).replayed
                    await neighbour
                infos = await store.turns.list("shared", limit=1_000_000)
                assert sorted(one.turn for one in infos if one.turn.startswith("t")) == sorted(
                    f"t{n}" for n in range(cancels)
                )
                assert len(infos) == 2 * cancels
                assert len(await store.nodes.path("shared")) == 3 * cancels
            return cancelled, replayed

        cancelled, replayed = asyncio.run(main())
        print(f"{cancels} tasks, {cancelled} cancelled, {replayed} of them were committed")
        assert cancelled > 0
        line.n = cancels


async def _append(store: AsyncStore, text: str) -> None:
    await store.messages.append("shared", user(text))


def test_random_cancels_of_holds(
    tmp_path: Path, seed: int, scale: Scale, scoreboard: Scoreboard
) -> None:
    """Whoever is cancelled, the session is free for the next worker right after."""
    with scoreboard.line("cancelled at random moments: holds", "sqlite", seed) as line:
        random = Random(seed + 1)

        async def work(store: AsyncStore) -> None:
            async with store.leases.hold("s", wait_s=10) as lease:
                turn = store.turns.begin(lease)
                turn.user("x")
                await turn.commit()

        async def main() -> None:
            async with opened(tmp_path / "store.db") as store:
                await store.sessions.ensure("s")
                for line.n in range(1, scale(60, 1_000) + 1):
                    task = asyncio.create_task(work(store))
                    await asyncio.sleep(random.uniform(0, 2 * RANDOM_DELAY_S))
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                    if await leaks(store, "s"):
                        line.violations.append(f"round {line.n}: the lease stayed")
                        return

        asyncio.run(main())


# --- negative controls


def test_control_a_half_commit_is_noticed(scoreboard: Scoreboard) -> None:
    """The driver really stops a coroutine between two steps."""
    with scoreboard.line("cancellation between two steps", "sqlite", control=True) as line:
        done: list[int] = []

        async def two_steps(n: int) -> None:
            await asyncio.sleep(0)
            done.append(1)
            await asyncio.sleep(0.001)
            done.append(2)

        async def main(mode: Mode) -> list[list[int]]:
            seen = []
            async for _ in cut_everywhere(two_steps, mode):
                seen.append(done.copy())
                done.clear()
            return seen

        for mode in MODES:
            seen = asyncio.run(main(mode))
            assert seen == [[], [1], [1, 2]]
            line.n += len(seen)
            line.violations += [f"{mode}: only step {half}" for half in seen if half == [1]]


def test_control_a_leaked_transaction_is_noticed(tmp_path: Path, scoreboard: Scoreboard) -> None:
    with scoreboard.line("cancellation, a transaction stays open", "sqlite", control=True) as line:
        path = tmp_path / "store.db"

        async def main() -> tuple[bool, bool]:
            async with AsyncStore.open(path) as store:
                await store.sessions.ensure("s")
                free = _no_transaction(path)
                reader = apsw.Connection(str(path))
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM sessions").fetchall()
                await store.sessions.ensure("t")
                held = _no_transaction(path)
                reader.close()
                return free, held

        free, held = asyncio.run(main())
        assert free
        line.n, line.violations = 1, [] if held else ["a transaction is open"]


def test_control_a_leaked_lease_is_noticed(tmp_path: Path, scoreboard: Scoreboard) -> None:
    with scoreboard.line("cancellation, a lease stays", "sqlite", control=True) as line:

        async def main() -> bool:
            async with AsyncStore.open(tmp_path / "store.db") as store:
                await store.sessions.ensure("s")
                await store.leases.take("s")
                return await leaks(store, "s")

        line.n, line.violations = 1, ["the lease stayed"] if asyncio.run(main()) else []
