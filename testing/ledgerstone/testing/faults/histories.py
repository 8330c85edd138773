"""What processes said they did, judged against what the store shows.

    Planned   printed before a commit is sent       Acked   printed after its answer came
    Granted   printed after a lease was granted

An acknowledged turn must be there once, whole, at its revision. A turn that was only planned may
be there or not, but never in part. Nothing else may be there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec

from ledgerstone.commands.nodes import ListDrafts, ListNodes
from ledgerstone.commands.sessions import GetHead
from ledgerstone.commands.turns import ListTurns, VerifySession
from ledgerstone.ports.backend import Backend
from ledgerstone.records.reports import Defect
from ledgerstone.records.turns import TurnInfo

ALL = 1_000_000


class Planned(msgspec.Struct, frozen=True, tag=True):
    """A turn that is about to be committed, with the ids of its nodes."""

    session: str
    turn: str
    nodes: tuple[str, ...]


class Acked(msgspec.Struct, frozen=True, tag=True):
    """A commit that was answered."""

    session: str
    turn: str
    revision: int
    nodes: tuple[str, ...]


class Granted(msgspec.Struct, frozen=True, tag=True):
    """A lease that was answered."""

    session: str
    fence: int


Event = Planned | Acked | Granted
_decoder = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder()


def encode_event(event: Event) -> bytes:
    return _encoder.encode(event)


def decode_event(data: bytes) -> Event:
    event: Event = _decoder.decode(data)
    return event


class History:
    """Everything that was said about each session, in the order in which it was heard."""

    def __init__(self) -> None:
        self.planned: dict[str, dict[str, Planned]] = {}
        self.acked: dict[str, dict[str, Acked]] = {}
        self.fences: dict[str, list[int]] = {}

    def add(self, event: Event) -> None:
        if isinstance(event, Planned):
            self.planned.setdefault(event.session, {})[event.turn] = event
        elif isinstance(event, Acked):
            self.acked.setdefault(event.session, {})[event.turn] = event
        else:
            self.fences.setdefault(event.session, []).append(event.fence)


class Found(msgspec.Struct, frozen=True):
    """What one snapshot of the store shows of a session."""

    session: str
    revision: int
    turns: list[TurnInfo]
    nodes: list[str]
    drafts: list[str]
    defects: list[Defect]


class Verdict(msgspec.Struct):
    """What was counted, and every promise that was broken, by name."""

    turns: int = 0
    acked: int = 0
    unacked: int = 0
    lost: list[str] = []
    half: list[str] = []
    doubled: list[str] = []
    strange: list[str] = []
    defects: list[str] = []

    @property
    def violations(self) -> list[str]:
        named = {name: getattr(self, name) for name in _BROKEN}
        return [f"{name}: {text}" for name, found in named.items() for text in found]

    def add(self, other: Verdict) -> None:
        """Take over what another verdict found broken; counts stay those of this one."""
        for name in _BROKEN:
            mine = getattr(self, name)
            mine += [text for text in getattr(other, name) if text not in mine]


_BROKEN = ("lost", "half", "doubled", "strange", "defects")


def read_back(backend: Backend, tenant: str, session: str) -> Found:
    """Everything the checks need, from one snapshot."""
    head, turns, nodes, drafts, verified = backend.read(
        (
            GetHead(tenant=tenant, id=session),
            ListTurns(tenant=tenant, session=session, limit=ALL),
            ListNodes(tenant=tenant, session=session, limit=ALL),
            ListDrafts(tenant=tenant, session=session),
            VerifySession(tenant=tenant, session=session),
        )
    )
    return Found(
        session=session,
        revision=0 if head is None else head.revision,
        turns=turns,
        nodes=[node.id for node in nodes],
        drafts=[draft.id for draft in drafts],
        defects=verified.defects,
    )


def judge(history: History, found: Found) -> Verdict:
    """What the store shows of one session against what was said about it."""
    acked = history.acked.get(found.session, {})
    present = {turn.turn: turn for turn in found.turns}
    return Verdict(
        turns=len(found.turns),
        acked=len(acked),
        unacked=len(present.keys() - acked.keys()),
        lost=list(_lost(acked.values(), present, set(found.nodes))),
        half=list(_half(history, found)),
        doubled=list(_doubled(found)),
        strange=list(_strange(history, found)),
        defects=[f"{one.session} {one.kind} {one.where} {one.detail}" for one in found.defects],
    )


def _lost(acked: Iterable[Acked], present: dict[str, TurnInfo], nodes: set[str]) -> Iterator[str]:
    for ack in acked:
        turn = present.get(ack.turn)
        if turn is None:
            yield f"turn {ack.turn} of {ack.session} was acknowledged and is not there"
        elif turn.revision != ack.revision:
            yield f"turn {ack.turn} is at {turn.revision}, acknowledged at {ack.revision}"
        elif missing := [node for node in ack.nodes if node not in nodes]:
            yield f"turn {ack.turn} lost its nodes {missing}"


def _half(history: History, found: Found) -> Iterator[str]:
    nodes = set(found.nodes)
    turns = {turn.turn for turn in found.turns}
    for plan in history.planned.get(found.session, {}).values():
        there = [node for node in plan.nodes if node in nodes]
        if there and len(there) < len(plan.nodes):
            yield f"turn {plan.turn} has {len(there)} of {len(plan.nodes)} nodes"
        elif bool(there) != (plan.turn in turns) and plan.nodes:
            yield f"turn {plan.turn}: its row and its nodes are not together"


def _doubled(found: Found) -> Iterator[str]:
    for kind, names in (("turn", [turn.turn for turn in found.turns]), ("node", found.nodes)):
        for name, count in Counter(names).items():
            if count > 1:
                yield f"{kind} {name} of {found.session} is there {count} times"


def _strange(history: History, found: Found) -> Iterator[str]:
    plans = history.planned.get(found.session, {})
    planned = {node for plan in plans.values() for node in plan.nodes}
    for turn in found.turns:
        if turn.turn not in plans:
            yield f"turn {turn.turn} of {found.session} was never planned"
    for node in found.nodes:
        if node not in planned:
            yield f"node {node} of {found.session} was never planned"
    for node in set(found.drafts) & set(found.nodes):
        yield f"draft {node} of {found.session} outlived its commit"
    if [turn.revision for turn in found.turns] != list(range(1, found.revision + 1)):
        yield f"{found.session} is at revision {found.revision} with {len(found.turns)} turns"
    fences = history.fences.get(found.session, [])
    if any(later <= earlier for earlier, later in pairwise(fences)):
        yield f"the fences of {found.session} do not rise: {fences}"
