"""One agent process: `python -m ledgerstone.demo.worker`, orders on stdin, reports on stdout.

A report is one line of JSON. `turn` is printed after the commit was acknowledged and never
before, so that whoever reads it may rely on the turn.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import msgspec

from ledgerstone import Store
from ledgerstone.clock import US_PER_S, SystemClock
from ledgerstone.demo.script import (
    APPROVED_TOOL,
    FATAL_STEP,
    INTERRUPTED,
    MODEL,
    STEPS,
    Step,
    steps_done,
    tokens,
)
from ledgerstone.errors import Fenced
from ledgerstone.records.drafts import DraftRecord
from ledgerstone.records.leases import Held, Lease
from ledgerstone.records.turns import TurnCommitted

WAIT_S = 10.0
STALL_S = 10.0


class Orders(msgspec.Struct, frozen=True):
    """What a worker shall do; `lease` is what a revived one still believes in."""

    store: str
    tenant: str
    session: str
    step_s: float
    token_s: float
    ttl_s: float
    lease: Lease | None = None
    gate: bool = False
    stall: bool = False


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a worker; which fields it has depends on the event."""

    event: str
    text: str = ""
    kind: str = ""
    tool: str = ""
    data: Any = None
    turn: str = ""
    messages: tuple[str, ...] = ()
    lease: Lease | None = None
    fence: int = 0
    left_s: float = 0.0
    yours: int = 0
    current: int = 0


def report(event: str, **fields: Any) -> None:
    """One line for the stage."""
    sys.stdout.buffer.write(msgspec.json.encode(Report(event, **fields)) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    """Do as ordered; the end of the process is the last report."""
    orders = msgspec.json.decode(sys.stdin.buffer.readline(), type=Orders)
    with Store.open(orders.store, tenant=orders.tenant) as store:
        if orders.lease is None:
            work(store, orders)
        else:
            insist(store, orders.lease)


def work(store: Store, orders: Orders) -> None:
    """Take the session, finish what a predecessor left, go on to the end of the script."""
    held_by = store.leases.get(orders.session)
    if held_by is not None:
        left_us = held_by.expires_us - SystemClock().now_us()
        report("waiting", fence=held_by.fence, left_s=max(0, left_us) / US_PER_S)
    with store.leases.hold(orders.session, ttl_s=orders.ttl_s, wait_s=WAIT_S) as lease:
        report("lease", lease=lease.lease)
        finish_drafts(store, lease, orders)
        if orders.gate:
            report("ready")
            sys.stdin.buffer.readline()
        ticket = go_on(store, lease, orders)
    if ticket is not None:
        resume(store, ticket, orders)
    report("finished")


def go_on(store: Store, lease: Held, orders: Orders) -> str | None:
    """Step by step to the end of the script, or to a call that somebody has to approve."""
    while (done := steps_done(store.messages.history(orders.session))) < len(STEPS):
        step = STEPS[done]
        if step.kind == "call" and step.tool == APPROVED_TOOL:
            return ask(store, lease, step, orders)
        act(store, lease, step, orders)
    return None


def ask(store: Store, lease: Held, step: Step, orders: Orders) -> str:
    """One commit: the call, the question, the run that waits, and nobody owns the session."""
    time.sleep(orders.step_s)
    turn = store.turns.begin(lease, run_id=run_of(orders))
    turn.assistant([call_of(step)], model=MODEL, finish_reason="tool_calls")
    ticket = turn.ask(step.call_id, reason="it costs money", expires_s=86400)
    acknowledge(turn.commit(release=True), step)
    report("asks")
    return ticket.id


def resume(store: Store, ticket: str, orders: Orders) -> None:
    """The decision is work like any other: take it with the session, pay once, go on."""
    with store.work.hold(queue=orders.session, ttl_s=orders.ttl_s, wait_s=WAIT_S) as (lease, claim):
        report("woken", lease=lease.lease)
        step = STEPS[steps_done(store.messages.history(orders.session))]
        with store.executions.run(lease, ticket=ticket) as execution:
            execution.result = step.data
        turn = store.turns.begin(lease, run_id=run_of(orders))
        turn.tool(step.call_id, execution.result, tool_name=step.tool)
        turn.run("done")
        turn.complete(claim)
        acknowledge(turn.commit(), step)
        go_on(store, lease, orders)


def run_of(orders: Orders) -> str:
    return f"{orders.session}-payment"


def call_of(step: Step) -> dict[str, Any]:
    return {"type": "tool-call", "id": step.call_id, "name": step.tool, "arguments": step.data}


def finish_drafts(store: Store, lease: Held, orders: Orders) -> None:
    """Keep what the predecessor had streamed, and say the rest of it."""
    recovery = store.sessions.recovery(orders.session)
    for draft in recovery.drafts if recovery else ():
        step = STEPS[steps_done(store.messages.history(orders.session))]
        if draft.text and step.text.startswith(draft.text):
            report("adopts", text=draft.text)
            adopt(store, lease, draft, step, orders)
        else:
            store.drafts.discard(draft)
            report("discards", text=draft.text)


def adopt(store: Store, lease: Held, draft: DraftRecord, step: Step, orders: Orders) -> None:
    """One commit: the dead worker's words as they are, and the end of the sentence."""
    turn = store.turns.begin(lease)
    turn.adopt(draft, finish_reason=INTERRUPTED)
    with turn.draft(model=MODEL, finish_reason="stop") as rest:
        stream(rest, step.text[len(draft.text) :], orders.token_s)
    acknowledge(turn.commit(), step)


def act(store: Store, lease: Held, step: Step, orders: Orders) -> None:
    """One step, one commit."""
    time.sleep(orders.step_s)
    turn = store.turns.begin(lease)
    if step.kind == "user":
        turn.user(step.text)
    elif step.kind == "call":
        turn.assistant([call_of(step)], model=MODEL, finish_reason="tool_calls")
    elif step.kind == "result":
        turn.tool(step.call_id, step.data, tool_name=step.tool)
    else:
        with turn.draft(model=MODEL, finish_reason="stop") as draft:
            stalls = orders.stall and step is STEPS[FATAL_STEP]
            stream(draft, step.text, orders.token_s, stalls=stalls)
    acknowledge(turn.commit(), step)


def stream(draft: Any, text: str, token_s: float, *, stalls: bool = False) -> None:
    """Token by token, each reported, kept by the store as it grows.

    A model that stalls half way makes sure that the kill falls into the middle of the answer,
    however slow the machine is.
    """
    for token in tokens(text):
        draft.write(token)
        report("token", text=draft.text)
        if stalls and len(draft.text) >= len(text) / 2:
            report("half")
            time.sleep(STALL_S)
        time.sleep(token_s)


def acknowledge(answer: TurnCommitted, step: Step) -> None:
    """The commit is durable: say so."""
    report(
        "turn",
        turn=answer.turn,
        messages=tuple(message.id for message in answer.messages),
        kind=step.kind,
        tool=step.tool,
        text="".join(message.text for message in answer.messages),
        data=step.data,
    )


def insist(store: Store, lease: Lease) -> None:
    """A worker that slept through its own end: it still has its old lease and uses it."""
    report("believes", fence=lease.fence)
    turn = store.turns.begin(lease)
    turn.assistant("I was about to say that everything is paid.", model=MODEL)
    try:
        answer = turn.commit()
    except Fenced as fenced:
        report("fenced", yours=fenced.yours, current=fenced.current)
    else:
        acknowledge(answer, Step("answer"))


if __name__ == "__main__":
    main()
