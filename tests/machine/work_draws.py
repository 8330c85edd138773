"""Random work: batches, claims and everything that may become of them."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from hypothesis import strategies as st

from ledgerstone.commands import Command, Query
from ledgerstone.commands.leases import TakeLease
from ledgerstone.commands.work import (
    AbandonClaim,
    CancelWork,
    ClaimWork,
    Completion,
    DropDead,
    EnqueueWork,
    ExplainWork,
    FailClaim,
    ListDead,
    ListWork,
    NewBatch,
    ParkClaim,
    PeekWork,
    RenewClaim,
    ReplayWork,
    TakeWork,
)
from ledgerstone.records.work import BOUNDARIES, DELIVERIES
from tests.machine import draws
from tests.machine.ticket_draws import executions

US = 1_000_000
LEASE_US = 60 * US
QUEUES = ("default", "default", "default", "side")
CLAIM_TTLS_US = (0, 30 * US, LEASE_US, 900 * US)
GUARDS = (*("held",) * 6, "free", "stale")

queues = st.sampled_from(QUEUES)
batches = st.sampled_from((*draws.BATCHES, "w5", "w6"))
claims = st.sampled_from(draws.CLAIMS)
seldom = st.sampled_from((False, False, False, False, True))


class Step(NamedTuple):
    """A command, and how long after the one before it.

    `aim` points it at one of the things there are, None leaves it as it was drawn. `guard` says
    which guard a claim should come with.
    """

    command: Command[Any]
    aim: int | None
    guard: str
    wait_s: float


def completed(claim: str) -> Completion:
    """The claim as a commit completes it."""
    return Completion(claim, token_of(claim))


def token_of(claim: str) -> str:
    """Always the same one for a claim, so that most attempts to end it are lawful."""
    return f"token {claim}"


def _shapes(count: int) -> list[dict[str, Any]]:
    """What batches look like: made once, since drawing each field would leave no room for more."""
    random = Random(count)
    fields: dict[str, tuple[Any, ...]] = {
        "payloads": (b'[{"n":1}]', b"[null,2]"),
        "source_key": (None, None, None, "key"),
        "queue": QUEUES,
        "delivery": (*DELIVERIES, "after_current_turn_commit"),
        "slot": ("join", "join", "exclusive"),
        "merge": ("never", "payload", "group:g", "group:g", "group:g", "group:h"),
        "priority": (128, 128, 128, 5, 200),
        "available_us": (0, 0, 0, 0, draws.START_US, draws.START_US + 40 * US),
        "delay_us": (0, 0, 0, 0, 1, 20 * US),
        "max_attempts": (None, 1, 1, 2, 5),
        "backoff_us": (0, 0, 5 * US),
    }
    return [{name: random.choice(pool) for name, pool in fields.items()} for _ in range(count)]


SHAPES = _shapes(64)


@st.composite
def new_batches(draw: st.DrawFn) -> NewBatch:
    shape = draw(st.sampled_from(SHAPES))
    return NewBatch(session=draw(draws.sessions), id=draw(batches), **shape)


completions = st.sampled_from(
    ((), (), (), (completed("c1"),), (completed("c2"),), (Completion("c1", "a guess"),))
)
in_a_commit = st.lists(new_batches(), max_size=2).map(tuple)


@st.composite
def enqueues(draw: st.DrawFn) -> EnqueueWork:
    return EnqueueWork(tenant=draw(draws.tenants), batch=draw(new_batches()))


@st.composite
def claimings(draw: st.DrawFn) -> ClaimWork:
    claim = draw(claims)
    ids = draw(st.one_of(st.none(), st.none(), st.none(), draws.once(batches, 2)))
    return ClaimWork(
        tenant=draw(draws.tenants),
        session=draw(draws.sessions),
        claim=claim,
        owner=draw(st.sampled_from(draws.OWNERS)),
        token=token_of(claim),
        ttl_us=draw(st.sampled_from(CLAIM_TTLS_US)),
        boundary=draw(st.sampled_from(("idle", "idle", *BOUNDARIES))),
        max_batches=draw(st.sampled_from((1, 3, 3, 3, 0))),
        ids=ids,
        queue=draw(st.one_of(st.none(), queues)),
    )


@st.composite
def takes(draw: st.DrawFn) -> TakeWork:
    claim = draw(claims)
    return TakeWork(
        tenant=draw(draws.tenants),
        queue=draw(queues),
        owner=draw(st.sampled_from(draws.OWNERS)),
        lease_token=draw(st.sampled_from(draws.TOKENS)),
        claim=claim,
        claim_token=token_of(claim),
        ttl_us=draw(st.sampled_from((0, LEASE_US, LEASE_US, LEASE_US))),
        max_batches=draw(st.sampled_from((1, 3, 3))),
    )


@st.composite
def settlings(draw: st.DrawFn) -> Command[Any]:
    """The end of a claim, by its owner and sometimes by a stranger."""
    claim = draw(claims)
    named: dict[str, Any] = {
        "tenant": draw(draws.tenants),
        "session": draw(draws.sessions),
        "claim": claim,
        "token": "a guess" if draw(seldom) else token_of(claim),
    }
    delay_us = draw(st.sampled_from((None, None, 7 * US)))
    return draw(
        st.sampled_from(
            (
                RenewClaim(ttl_us=draw(st.sampled_from(CLAIM_TTLS_US)), **named),
                AbandonClaim(delay_us=draw(st.sampled_from((0, 0, 9 * US))), **named),
                FailClaim(error="no luck", delay_us=delay_us, bury=draw(seldom), **named),
                FailClaim(error="x" * 2000, **named),
                ParkClaim(execution=draw(executions), **named),
            )
        )
    )


@st.composite
def endings(draw: st.DrawFn) -> Command[Any]:
    """Work that is called off, or called back."""
    common: dict[str, Any] = {"tenant": draw(draws.tenants), "batch": draw(batches)}
    return draw(
        st.sampled_from(
            (
                CancelWork(session=draw(draws.sessions), **common),
                ReplayWork(**common),
                ReplayWork(**common),
                DropDead(**common),
            )
        )
    )


@st.composite
def one_step(draw: st.DrawFn) -> Step:
    verbs = (enqueues(), enqueues(), claimings(), takes(), takes(), settlings(), endings())
    return Step(
        draw(st.one_of(verbs)),
        draw(st.one_of(st.none(), st.integers(0, 3), st.integers(0, 3))),
        draw(st.sampled_from(GUARDS)),
        draw(st.sampled_from((0, 0, 0, 0.5, 30, 61))),
    )


steps = st.lists(one_step(), min_size=2, max_size=7)


def lease_for(command: ClaimWork) -> TakeLease:
    """What a claim needs first; another owner's lease stays as it is."""
    place: dict[str, Any] = {"tenant": command.tenant, "session": command.session}
    return TakeLease(owner=command.owner, token="k1", ttl_us=LEASE_US, **place)


@st.composite
def questions(draw: st.DrawFn) -> Query[Any]:
    common: dict[str, Any] = {"tenant": draw(draws.tenants)}
    session = draw(draws.sessions)
    after = st.tuples(st.sampled_from((0, draws.START_US, draws.START_US + US)), batches)
    return draw(
        st.sampled_from(
            (
                ListWork(session=session, pending=draw(st.booleans()), **common),
                PeekWork(queue=draw(queues), **common),
                ExplainWork(session=draw(st.one_of(st.none(), draws.sessions)), **common),
                ExplainWork(limit=draw(draws.limits), **common),
                ListDead(
                    session=draw(st.one_of(st.none(), draws.sessions)),
                    limit=draw(draws.limits),
                    offset=draw(st.integers(0, 2)),
                    after=draw(st.one_of(st.none(), after)),
                    total=draw(st.booleans()),
                    **common,
                ),
            )
        )
    )
