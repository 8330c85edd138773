"""A store with something of everything in it, and everything that can be read of it.

What is damaged on purpose has to be compared with what it was: `fill` makes the history, and
`read_all` asks every question there is about it, one answer per question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import msgspec

from ledgerstone.api_sync.store import Store
from ledgerstone.clock import ManualClock
from ledgerstone.codec import sha256
from ledgerstone.commands import Query
from ledgerstone.commands.blobs import GetAttachment, ListUncommitted
from ledgerstone.commands.executions import GetExecution, GetRecovery, ListExecutions
from ledgerstone.commands.leases import GetLease
from ledgerstone.commands.nodes import (
    CountMessages,
    DiffBranches,
    FindNodes,
    GetMessage,
    GetNotes,
    GetValues,
    GetVersions,
    ListBranches,
    ListDrafts,
    ListMessages,
    ListNodes,
    ReadMessages,
    ReadPath,
)
from ledgerstone.commands.runs import GetRun, LatestRun, ListRuns
from ledgerstone.commands.sessions import (
    CountSessions,
    GetDocument,
    GetHead,
    GetPicker,
    GetSession,
    ListSessions,
    ReadSessionAt,
    SessionFilter,
)
from ledgerstone.commands.tickets import GetTicket, ListTickets, TicketFilter
from ledgerstone.commands.turns import GetTurn, ListTurns
from ledgerstone.commands.work import ListDead, ListWork
from ledgerstone.errors import (
    BackendError,
    Damaged,
    LedgerstoneError,
    NotSupported,
    Unavailable,
)
from ledgerstone.ports.backend import Backend
from ledgerstone.records.messages import assistant, tool_call, tool_result, user
from ledgerstone.records.nodes import Node, Opaque
from ledgerstone.records.usage import Usage
from ledgerstone.testing.bed import DOCUMENTS

TENANTS = ("default", "red")
SESSIONS = ("trip", "fork", "copy", "gone", "notes", "twice")
PURGED, RETIRED = "purged", "retired"
RUNS = ("r1", "r2", "r3", "kept")
NODES = ("m1", "m2", "m4", "d2", "plugin", "opaque", "n1")
VALUE = b"bytes that a node refers to"
EXECUTION = b"state of the machine"
FOREVER_US = 2**60

Reading: TypeAlias = dict[str, Any]
"""The answer to each question; where there was an error instead, a `Refused`."""


class Refused(msgspec.Struct, frozen=True):
    """An error in the place of an answer.

    `about` is "store" when the store says it is damaged or cannot answer, "question" when it says
    that there is no such thing or the like, and "raw" when the error is none of ours.
    """

    error: str
    text: str
    about: str


class Stopped(Exception):
    """What ends the writer of a draft."""


def _talk(store: Store) -> None:
    store.sessions.create(
        id="trip", user="ada", app="desk", title="Oslo", model="m-1", cwd="desk",
        metadata={"colour": "green"}, document={"total_cost": 1.5, "notes": "a document"},
    )  # fmt: skip
    store.messages.append(
        "trip",
        user("Book a flight to Oslo", id="m1", metadata={"lang": "en"}),
        assistant([tool_call("search", {"to": "OSL", "max": 120}, id="c1")], id="m2"),
        tool_result("c1", {"found": ["9:40", "12:15"]}, id="m3"),
        assistant("The 9:40?", id="m4"),
    )


def _branch(store: Store) -> None:
    store.branches.create("trip", "side", at="m1")
    store.messages.append("trip", assistant("By train then", id="d2"), branch="side")
    store.messages.amend("m1", session="trip", metadata={"lang": "de"})
    store.messages.amend("m1", session="trip", metadata={"lang": "fr"})


def _work_on(store: Store) -> None:
    with store.turns.begin("trip", id="t1", run_id="r1") as turn:
        turn.user("And back?", id="m5")
        turn.run("running", agent="scribe", input={"goal": "a trip"})
        turn.use("m-1", Usage(input=500, output=12))
        turn.state(mood="good", places=["Oslo"])
        turn.head(config={"model": "m-1"}, frames=[{"frame_id": "f1"}], current_frame="f1")
        digest = turn.value(VALUE)
        turn.node("plugin", {"n": 1}, id="plugin", label="l1", meta={"k": "v"}, values=[digest])
        turn.checkpoint(turn_state={"n": 1}, execution=EXECUTION)
    store.nodes.append("trip", Node(id="opaque", kind="blob", body=Opaque("bin", b"\x00\xffraw")))
    with store.turns.begin("trip", id="t2", run_id="r1") as turn:
        turn.assistant("At 18:05.", id="m6")
        turn.run("done", output={"booked": True}, steps=3)


def _hide(store: Store) -> None:
    store.messages.append("trip", user("forget this", id="m7"), user("and this", id="m8"))
    store.nodes.tombstone("trip", ["m7"])
    store.admin.vacuum("trip")
    store.messages.delete("m8", session="trip")


def _keep_beside(store: Store) -> None:
    store.nodes.append("notes", Node(id="n1", kind="event", body={"x": 1}), create=True)
    store.nodes.annotate("notes", "n1", {"seen": {"by": "ann"}, "stars": 5})
    store.runs.create("notes", id="r2", agent="planner", input="think")
    store.work.enqueue("notes", {"task": "first"}, id="w1", key="k1")
    store.work.enqueue("notes", {"task": "second"}, id="w2")
    store.attachments.intent("notes", "a1", "blob://one")
    store.attachments.intent("notes", "a2", "blob://two")
    with store.turns.begin("notes") as turn:
        turn.user("with an attachment", id="n2")
        turn.attach("a1")
    with suppress(Stopped), store.turns.begin("notes").draft(id="draft-1") as draft:
        draft.write("an answer that was never finished " * 100)
        raise Stopped


def _copy(store: Store) -> None:
    store.sessions.fork("trip", at="m4", new_id="fork", user="bob")
    store.messages.append("fork", user("another way", id="f1"))
    store.sessions.copy("trip", "copy")
    store.messages.append("gone", user("soon deleted", id="g1"), create=True)
    store.sessions.delete("gone")


def _forget(store: Store) -> None:
    for id in (PURGED, RETIRED, "twice"):
        store.messages.append(id, user("of no use"), create=True)
        store.leases.take(id, owner="ann", ttl_s=60)
    store.runs.create(PURGED, id="kept", agent="archivist", input="keep me")
    store.sessions.purge(PURGED, keep_runs=True)
    store.sessions.purge(RETIRED, retire=True)
    store.sessions.purge("twice")
    store.messages.append("twice", user("again", id="again"), create=True)


def _decide(store: Store) -> None:
    """Questions, answers, tool calls and dead letters."""
    with store.turns.begin("notes", id="t3", run_id="r3") as turn:
        calls = [tool_call("pay", {"eur": n}, id=f"c{n}") for n in (7, 8)]
        turn.assistant(calls, id="n3")
        for n in (7, 8):
            turn.ask(f"c{n}", id=f"ticket-{n}", reason="money", expires_s=86_400)
    store.tickets.resolve("ticket-7", "approve", by="ada", arguments={"eur": 6}, reason="too much")
    store.executions.start("notes", ticket="ticket-7", id="e1")
    store.executions.finish("e1", result={"receipt": "R-1"})
    store.executions.start("notes", call_id="c9", tool="look", arguments=["up"], id="e2")
    store.work.enqueue("notes", {"task": "later"}, id="w3", delay_s=3600, queue="slow")
    store.work.enqueue("fork", {"task": "hopeless"}, id="w4", priority=3)
    lease = store.leases.take("fork", owner="ann", ttl_s=60)
    claim = None if lease is None else store.work.claim(lease, id="claim-2")
    assert lease is not None
    assert claim is not None
    store.work.fail(claim, "it cannot be done", bury=True)
    store.leases.release(lease)


def _own(store: Store) -> None:
    lease = store.leases.take("notes", owner="ann", ttl_s=3600)
    assert lease is not None
    store.work.claim(lease, id="claim-1")
    store.sessions.update("twice", title="Second life", status="paused", metadata=[1, 2])


# Most of it belongs to the first tenant; the second has sessions of the same names.
STEPS = (
    (TENANTS[0], _talk),
    (TENANTS[0], _branch),
    (TENANTS[0], _work_on),
    (TENANTS[1], _talk),
    (TENANTS[0], _hide),
    (TENANTS[0], _keep_beside),
    (TENANTS[1], _branch),
    (TENANTS[0], _copy),
    (TENANTS[0], _forget),
    (TENANTS[0], _decide),
    (TENANTS[0], _own),
)
HALF = len(STEPS) // 2


def fill(backend: Backend, clock: ManualClock, first: int = 0, last: int = len(STEPS)) -> None:
    """Write the history, or a stretch of it."""
    store = Store(backend, tenant=None, clock=clock)
    for tenant, step in STEPS[first:last]:
        step(store.for_tenant(tenant))
        clock.advance(1)


def read_all(backend: Backend) -> Reading:
    """Every answer the backend gives about the specimen."""
    reading: Reading = {"tenants": _answer(backend.tenants)}
    for tenant in TENANTS:
        _ask(backend, reading, f"{tenant}", list(_of_tenant(tenant)))
        for session in SESSIONS:
            _ask(backend, reading, f"{tenant}/{session}", list(_of_session(tenant, session)))
    return reading


def probe(backend: Backend, clock: ManualClock) -> Reading:
    """What only a write can tell: how the ids of purged sessions go on. Leaves traces."""
    store = Store(backend, tenant=TENANTS[0], clock=clock)
    return {
        "probe purged": _answer(lambda: store.sessions.create(id=PURGED).incarnation),
        "probe fence": _answer(lambda: _fence(store)),
        "probe retired": _answer(lambda: store.sessions.create(id=RETIRED).incarnation),
    }


def _fence(store: Store) -> int | None:
    lease = store.leases.take(PURGED, owner="eve", ttl_s=60)
    return None if lease is None else lease.fence


def _ask(backend: Backend, reading: Reading, place: str, queries: list[Query[Any]]) -> None:
    """All at once; one by one when one of them is refused, so that the others still count."""
    names = [f"{place} {n} {type(query).__name__}" for n, query in enumerate(queries)]
    try:
        reading.update(zip(names, backend.read(queries), strict=True))
    except Exception:
        for name, query in zip(names, queries, strict=True):
            reading[name] = _answer(partial(_first, backend, query))


def _first(backend: Backend, query: Query[Any]) -> Any:
    return backend.read([query])[0]


def _answer(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception as error:
        return refused(error)


def refused(error: Exception) -> Refused:
    """The error as an answer."""
    about = "question" if isinstance(error, LedgerstoneError) else "raw"
    if isinstance(error, Damaged | Unavailable | BackendError | NotSupported):
        about = "store"
    return Refused(type(error).__name__, str(error), about)


def _of_tenant(tenant: str) -> Iterator[Query[Any]]:
    everything = SessionFilter(deleted=True)
    for order in ("-updated", "created", "id"):
        yield ListSessions(tenant=tenant, where=everything, order=order, total=True)
    yield ListSessions(tenant=tenant, where=SessionFilter(user="ada"))
    yield ListSessions(tenant=tenant, where=SessionFilter(parent="trip"))
    yield CountSessions(tenant=tenant, where=SessionFilter(app="desk"))
    for id in RUNS:
        yield GetRun(tenant=tenant, id=id)
    yield ListRuns(tenant=tenant, total=True)
    yield ListTickets(tenant=tenant, where=TicketFilter(status=None), total=True)
    for id in ("ticket-7", "ticket-8"):
        yield GetTicket(tenant=tenant, id=id)
    for id in ("e1", "e2"):
        yield GetExecution(tenant=tenant, id=id)
    yield ListExecutions(tenant=tenant, run_id="r3")
    yield ListDead(tenant=tenant, total=True)
    yield FindNodes(tenant=tenant, id="m1")
    yield GetMessage(tenant=tenant, id="m6")
    yield ListNodes(tenant=tenant, kind="plugin", label="l1")
    yield ListNodes(tenant=tenant, kind="event", order="-id")
    yield ListUncommitted(tenant=tenant, cutoff_us=FOREVER_US)


def _of_session(tenant: str, session: str) -> Iterator[Query[Any]]:
    place: dict[str, Any] = {"tenant": tenant, "session": session}
    yield GetSession(tenant=tenant, id=session)
    yield GetHead(tenant=tenant, id=session)
    yield GetPicker(tenant=tenant, id=session)
    yield GetLease(**place)
    yield ReadMessages(deleted=True, **place)
    yield ReadMessages(last=2, **place)
    yield CountMessages(**place)
    yield ListMessages(run_id="r1", total=True, **place)
    yield ListNodes(notes=True, resolve=True, **place)
    yield ReadPath(**place)
    yield ListBranches(**place)
    yield ListTurns(**place)
    yield ListDrafts(**place)
    yield ListWork(**place)
    yield ListWork(pending=True, **place)
    yield ListDead(**place)
    yield ListExecutions(**place)
    yield GetRecovery(**place)
    yield LatestRun(**place)
    yield GetNotes(nodes=NODES, **place)
    yield GetValues(digests=(sha256(VALUE), sha256(EXECUTION)), **place)
    yield ReadSessionAt(revision=2, **place)
    for name in DOCUMENTS:
        yield GetDocument(name=name, **place)
    for id in ("a1", "a2"):
        yield GetAttachment(id=id, **place)
    if session in ("trip", "copy"):
        yield DiffBranches(a="main", b="side", **place)
        yield ReadMessages(branch="side", **place)
        yield GetVersions(id="m1", **place)
        yield GetTurn(turn="t1", **place)
        yield ReadSessionAt(revision=6, **place)
