"""What a store said about each command, and whether what it shows afterwards fits to that.

The oracle is the model: it carries out exactly what was acknowledged, at the same times, and must
then show the same to the last field. Commands whose outcome nobody knows may be there or not, in
the order in which they were sent, but never in part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from ledgerstone.clock import US_PER_S, ManualClock
from ledgerstone.commands import Command, Query
from ledgerstone.commands.blobs import GetAttachment
from ledgerstone.commands.leases import GetLease
from ledgerstone.commands.nodes import (
    AnnotateNodes,
    GetNotes,
    ListBranches,
    ListDrafts,
    ListNodes,
    ReadMessages,
)
from ledgerstone.commands.runs import LatestRun
from ledgerstone.commands.sessions import (
    GetDocument,
    GetHead,
    GetSession,
    ListSessions,
    SessionFilter,
    SweepPurged,
)
from ledgerstone.commands.tickets import ListTickets, TicketFilter
from ledgerstone.commands.turns import CommitTurn, ListTurns, VerifySession
from ledgerstone.commands.work import ExplainWork, ListDead, ListWork, PeekWork
from ledgerstone.engines.memory.backend import MemoryBackend
from ledgerstone.errors import (
    BackendError,
    Damaged,
    LedgerstoneError,
    OutcomeUnknown,
    Unavailable,
)
from ledgerstone.ports.backend import Backend
from ledgerstone.records.work import QUEUE_DEFAULT
from ledgerstone.testing.bed import DOCUMENTS
from ledgerstone.testing.faults.commits import TENANT
from ledgerstone.testing.faults.folder_disk import AnyDisk
from ledgerstone.testing.faults.histories import Acked, History, Planned
from ledgerstone.testing.faults.scripts import PLAIN, SESSIONS, START_US, Step

QUEUED_WAIT_S = 0.0005
SHOWN_CHARS = 300
LONGEST_CHARS = 500
EVERYTHING = SessionFilter(deleted=True)


class Sent(msgspec.Struct, frozen=True):
    """A command and the time at which it was sent."""

    now_us: int
    command: Command[Any]


class Expected(msgspec.Struct, frozen=True):
    """What the model answers to all questions at its last moment."""

    now_us: int
    questions: list[Query[Any]]
    answers: list[Any]


class Told:
    """The sorted answers of one life of a store.

    `done` was acknowledged or refused by a rule, `unknown` may be stored, `failed` is not.
    `stored` of the unknown ones were found afterwards. Sessions that are `plain` have nothing but
    turns, so that histories.py can judge them without the model.
    """

    def __init__(self, history: Sequence[Step] = (), plain: Sequence[str] = PLAIN) -> None:
        self.plain = plain
        self.done = [Sent(step.now_us, one) for step in history for one in step.commands]
        self.unknown: list[Sent] = []
        self.failed: list[Sent] = []
        self.never: list[Sent] = []
        self.stored = 0
        self.violations: list[str] = []
        self.acked = 0
        self.errors: dict[str, int] = {}
        self.model = ModelOf(self.done)
        self._expected: dict[tuple[int, int], Expected] = {}
        self.spoken = History()
        for sent in self.done:
            self._speak(sent.command, None)

    def heard(self, sent: Sent, answer: Any, *, gone: bool = False) -> None:
        """Sort one answer; `gone`: the power went while it was under way."""
        command = sent.command
        self.plan(command)
        if isinstance(answer, BaseException):
            name = type(answer).__name__
            self.errors[name] = self.errors.get(name, 0) + 1
        if isinstance(answer, OutcomeUnknown) or (gone and isinstance(answer, Unavailable)):
            self.unknown.append(sent)
        elif isinstance(answer, Unavailable):
            self.failed.append(sent)
        elif isinstance(answer, (BackendError, Damaged)) or (
            isinstance(answer, BaseException) and not isinstance(answer, LedgerstoneError)
        ):
            self.unknown.append(sent)
            self.violations.append(f"untyped: {_name(command)} raised {answer!r}")
        else:
            self._settle(sent, answer)

    def plan(self, command: Command[Any]) -> None:
        if isinstance(command, CommitTurn):
            nodes = tuple(node.id for node in command.nodes)
            self.spoken.add(Planned(command.session, command.turn, nodes))

    def accept(self, sent: Sent, refused: str) -> None:
        """Take an answer of which only the name of its error was kept."""
        wanted = self.model.take(sent)
        name = type(wanted).__name__ if isinstance(wanted, LedgerstoneError) else ""
        if name != refused:
            self.violations.append(f"strange: {_name(sent.command)} {refused!r}, not {name!r}")
        self._speak(sent.command, wanted)
        self.done.append(sent)
        self.acked += not refused

    def next_life(self) -> None:
        """After a fault: what was found is part of the history, what was not never happened."""
        self.done += self.unknown[: self.stored]
        self.unknown, self.failed, self.never = [], [], []
        self.stored = 0
        self.model = ModelOf(self.done)
        self._expected.clear()

    def expected(self, stored: int) -> Expected:
        """What the store must show if so many of the unknown commands are in it.

        Kept, since many survivors of one fault are compared with it.
        """
        key = (len(self.done), stored)
        if key not in self._expected:
            model = ModelOf([*self.done, *self.unknown[:stored]])
            self._expected[key] = model.answers(self.questions())
        return self._expected[key]

    def questions(self) -> list[Query[Any]]:
        """Everything that can be asked; notes may hang on nodes that no list shows any more."""
        sent = [*self.done, *self.unknown, *self.failed, *self.never]
        noted = [one.command for one in sent if isinstance(one.command, AnnotateNodes)]
        nodes = {(one.session, note.node) for one in noted for note in one.notes}
        beside = [GetNotes(tenant=TENANT, session=of, nodes=(node,)) for of, node in sorted(nodes)]
        return [*QUESTIONS, *beside]

    def _settle(self, sent: Sent, answer: Any) -> None:
        command = sent.command
        if self.unknown and not isinstance(answer, LedgerstoneError):
            self.violations.append(f"poison: {_name(command)} was acknowledged after a lost answer")
        wanted = self.model.take(sent)
        self.done.append(sent)
        self.acked += not isinstance(answer, LedgerstoneError)
        # How many rows one sweep takes is the backend's affair.
        if not isinstance(command, SweepPurged) and not _same(answer, wanted):
            self.violations.append(
                f"strange: {_name(command)} got {answer!r}, not {wanted!r}"[:500]
            )
        self._speak(command, answer)

    def _speak(self, command: Command[Any], answer: Any) -> None:
        self.plan(command)
        if isinstance(command, CommitTurn) and not isinstance(answer, BaseException):
            turns = self.model.revisions
            self.spoken.add(
                Acked(
                    command.session,
                    command.turn,
                    turns.get((command.session, command.turn), 0),
                    tuple(node.id for node in command.nodes),
                )
            )


class ModelOf:
    """A memory backend that went through some commands."""

    def __init__(self, sent: Sequence[Sent]) -> None:
        self.clock = ManualClock(START_US)
        self.backend = MemoryBackend(self.clock)
        self.revisions: dict[tuple[str, str], int] = {}
        for one in sent:
            self.take(one)

    def answers(self, questions: list[Query[Any]]) -> Expected:
        """What it says to all of them at its last moment."""
        return Expected(self.clock.now_us(), questions, self.backend.read(questions))

    def take(self, sent: Sent) -> Any:
        """Carry one more out; what it raised is its answer."""
        set_clock(self.clock, sent.now_us)
        answer: Any
        try:
            answer = self.backend.write(sent.command)
        except LedgerstoneError as error:
            answer = error
        command = sent.command
        if isinstance(command, CommitTurn) and not isinstance(answer, BaseException):
            self.revisions[command.session, command.turn] = answer.revision
        return answer


def set_clock(clock: ManualClock, now_us: int) -> None:
    """The clock, wherever it stands, stands here now."""
    clock.advance((now_us - clock.now_us()) / US_PER_S)


def perform(
    backend: Backend,
    steps: Sequence[Step],
    clock: ManualClock,
    told: Told,
    disk: AnyDisk | None = None,
) -> None:
    """Send the steps one after the other and sort the answers; a power cut ends it."""
    for n, step in enumerate(steps):
        set_clock(clock, step.now_us)
        if disk is not None:
            disk.mark("sent")
        if len(step.commands) == 1:
            answers = [_write(backend, step.commands[0])]
        else:
            answers = asyncio.run(_together(backend, step.commands, disk))
        gone = disk is not None and disk.dead
        for command, answer in zip(step.commands, answers, strict=True):
            told.heard(Sent(step.now_us, command), answer, gone=gone)
            if disk is not None and not isinstance(answer, BaseException):
                disk.mark("acked")
        if gone:
            told.never = [
                Sent(later.now_us, one) for later in steps[n + 1 :] for one in later.commands
            ]
            return


def _write(backend: Backend, command: Command[Any]) -> Any:
    try:
        return backend.write(command)
    except Exception as error:
        return error


async def _together(
    backend: Backend, commands: Sequence[Command[Any]], disk: AnyDisk | None
) -> list[Any]:
    """The first one is on its way to disk while the others gather: they make one group."""
    first = asyncio.ensure_future(backend.awrite(commands[0]))
    if disk is not None:
        disk.shut_gate()
        while not disk.waiting and not first.done():  # noqa: ASYNC110 (it is a thread that waits)
            await asyncio.sleep(QUEUED_WAIT_S)
    rest = [asyncio.ensure_future(backend.awrite(one)) for one in commands[1:]]
    await asyncio.sleep(0)
    if disk is not None:
        disk.open_gate()
    return await asyncio.gather(first, *rest, return_exceptions=True)


def questions(sessions: Sequence[str]) -> list[Query[Any]]:
    """Everything that can be asked about these sessions."""
    place: dict[str, Any] = {"tenant": TENANT}
    asked: list[Query[Any]] = [
        ListSessions(where=EVERYTHING, order="id", total=True, limit=500, **place),
        PeekWork(queue=QUEUE_DEFAULT, **place),
        ExplainWork(limit=500, **place),
        ListDead(limit=500, **place),
        ListTickets(where=TicketFilter(status=None), limit=500, **place),
    ]
    for session in sessions:
        of: dict[str, Any] = {"tenant": TENANT, "session": session}
        asked += [
            GetSession(id=session, **place),
            GetHead(id=session, **place),
            ReadMessages(deleted=True, **of),
            ListNodes(notes=True, resolve=True, **of),
            ListBranches(**of),
            ListTurns(**of),
            ListDrafts(**of),
            ListWork(**of),
            LatestRun(**of),
            GetLease(**of),
            GetAttachment(id="file", **of),
            VerifySession(**of),
            *(GetDocument(name=name, **of) for name in DOCUMENTS),
        ]
    return asked


QUESTIONS = questions(SESSIONS)


def differences(backend: Backend, clock: ManualClock, expected: Expected) -> list[str]:
    """What a backend shows otherwise than expected, asked at the same time of day."""
    set_clock(clock, expected.now_us)
    found = backend.read(expected.questions)
    return [
        f"{_name(query)}: found {_short(got)}, not {_short(want)}"
        for query, got, want in zip(expected.questions, found, expected.answers, strict=True)
        if got != want
    ]


def resend(backend: Backend, clock: ManualClock, told: Told) -> list[str]:
    """Repeat what has no answer and send the rest: every turn is there once, as never disturbed.

    A commit that was found all the same must answer as a repetition.
    """
    found: list[str] = []
    model = ModelOf([*told.done, *told.unknown[: told.stored]])
    for n, sent in enumerate([*told.unknown, *told.failed, *told.never]):
        known = n < told.stored
        if known and not isinstance(sent.command, CommitTurn):
            continue
        set_clock(clock, sent.now_us)
        answer = _write(backend, sent.command)
        wanted = model.take(sent)
        if not _same(answer, wanted) and not isinstance(sent.command, SweepPurged):
            text = f"after: {_name(sent.command)} got {answer!r}, not {wanted!r}"
            found.append(text[:LONGEST_CHARS])
    expected = model.answers(told.questions())
    return found + [f"after: {one}" for one in differences(backend, clock, expected)]


def _same(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, BaseException):
        return type(got) is type(wanted)
    return bool(got == wanted)


def _name(asked: Command[Any] | Query[Any]) -> str:
    where = getattr(asked, "session", "") or getattr(asked, "id", "")
    what = getattr(asked, "turn", "") or getattr(asked, "name", "")
    named = (type(asked).__name__, getattr(where, "id", where), what)
    return " ".join(str(part) for part in named if part)


def _short(value: object) -> str:
    try:
        text = repr(msgspec.to_builtins(value, builtin_types=(bytes,)))
    except TypeError:
        text = repr(value)
    return text[:SHOWN_CHARS]
