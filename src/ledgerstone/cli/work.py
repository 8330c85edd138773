"""`ledgerstone work`: what is queued, why it does not move, what was given up."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from ledgerstone import Store
from ledgerstone.cli.failures import CliError
from ledgerstone.cli.options import AsJson, StoreUrl, Tenant, reading, writing
from ledgerstone.cli.output import moment, plural, print_json, print_line, print_table, visible
from ledgerstone.clock import SystemClock
from ledgerstone.errors import BatchNotFound, SessionNotFound
from ledgerstone.records.sessions import Page
from ledgerstone.records.work import Batch, DeadBatch, Stuck

EXAMPLE = "Example: ledgerstone work --store agent.db; ledgerstone work replay BATCH"
REPLAY = "replay"
QUEUED = ("BATCH", "QUEUE", "PRIORITY", "ITEMS", "ATTEMPTS", "STATE", "ENQUEUED", "LAST ERROR")
DEAD = ("BATCH", "SESSION", "QUEUE", "ATTEMPTS", "DIED", "REASON")
STUCK = ("SESSION", "REASON", "SINCE", "UNTIL", "DETAIL")

Session = Annotated[
    str | None,
    typer.Argument(
        metavar="SESSION", help="Only of this session; or `replay`.", show_default=False
    ),
]
DeadId = Annotated[
    str | None,
    typer.Argument(
        metavar="BATCH", help="After `replay`: the dead batch to queue again.", show_default=False
    ),
]
Dead = Annotated[bool, typer.Option("--dead", help="The dead letters instead.")]
Why = Annotated[bool, typer.Option("--stuck", help="Why it does not move.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, up to 200.")]
Cursor = Annotated[
    str | None,
    typer.Option("--cursor", metavar="TEXT", help="Go on where --dead ended.", show_default=False),
]


def run(
    session: Session = None,
    batch: DeadId = None,
    *,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    dead: Dead = False,
    stuck: Why = False,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """Show queued work: of one session, or which sessions have some and why they wait."""
    if dead and stuck:
        raise CliError("--dead and --stuck are two questions; ask one of them")
    if batch is not None and session != REPLAY:
        raise CliError("one session at a time; to queue a dead batch again: work replay BATCH")
    if batch is not None:
        with writing(store, tenant) as opened:
            _print_replayed(_replayed(opened, batch), as_json)
        return
    with reading(store, tenant) as opened:
        if session is not None and opened.sessions.get(session) is None:
            raise SessionNotFound(session)
        if dead:
            page = opened.work.dead(session=session, limit=limit, cursor=cursor, total=True)
            _print_dead(page, as_json)
        elif stuck or session is None:
            _print_stuck(opened.work.stuck(session, limit=limit), as_json)
        else:
            _print_queued(opened.work.list(session), as_json)


def _replayed(store: Store, batch: str) -> Batch:
    try:
        return store.work.replay(batch)
    except BatchNotFound:
        raise CliError(f"no dead batch {batch!r} here; `work --dead` lists them") from None


def _print_replayed(batch: Batch, as_json: bool) -> None:
    if as_json:
        print_json({"replayed": _plain(batch)})
        return
    print_line(f"{visible(batch.id)} is queued again in session {visible(batch.session)}")


def _print_queued(batches: list[Batch], as_json: bool) -> None:
    if as_json:
        print_json({"batches": [_plain(batch) for batch in batches]})
    elif batches:
        now_us = SystemClock().now_us()
        print_table(QUEUED, [_row(batch, now_us) for batch in batches])
    else:
        print_line("nothing is queued")


def _print_dead(page: Page[DeadBatch], as_json: bool) -> None:
    if as_json:
        items = [
            {"batch": _plain(one.batch), "reason": one.reason, "dead_us": one.dead_us}
            for one in page.items
        ]
        print_json({"dead": items, "total": page.total, "cursor": page.cursor})
        return
    if not page.items:
        print_line("no dead letters")
        return
    print_table(DEAD, [_dead_row(one) for one in page.items])
    if page.has_more:
        print_line(f"{len(page)} of {page.total}; the next ones: --cursor {page.cursor}", "dim")


def _print_stuck(found: list[Stuck], as_json: bool) -> None:
    if as_json:
        print_json({"stuck": found})
    elif found:
        print_table(STUCK, [_stuck_row(one) for one in found])
    else:
        print_line("no work is waiting")


def _plain(batch: Batch) -> dict[str, Any]:
    """Everything but what was said: only `show` prints that."""
    fields: dict[str, Any] = msgspec.to_builtins(batch)
    return {**fields, "payloads": len(batch.payloads)}


def _row(batch: Batch, now_us: int) -> tuple[str, ...]:
    return (
        visible(batch.id),
        visible(batch.queue),
        str(batch.priority),
        str(len(batch.payloads)),
        str(batch.attempts) + ("" if batch.max_attempts is None else f" of {batch.max_attempts}"),
        _state(batch, now_us),
        moment(batch.enqueued_us),
        visible(batch.last_error or ""),
    )


def _state(batch: Batch, now_us: int) -> str:
    if batch.waiting_for is not None:
        return f"parked, execution {visible(batch.waiting_for)}"
    if batch.claim is not None:
        return f"claimed, fence {batch.claim_fence}"
    if batch.available_us > now_us:
        return f"due {moment(batch.available_us)}"
    return "ready"


def _dead_row(dead: DeadBatch) -> tuple[str, ...]:
    batch = dead.batch
    return (
        visible(batch.id),
        visible(batch.session),
        visible(batch.queue),
        plural(batch.attempts, "attempt"),
        moment(dead.dead_us),
        visible(dead.reason),
    )


def _stuck_row(stuck: Stuck) -> tuple[str, ...]:
    return (
        visible(stuck.session),
        stuck.reason,
        moment(stuck.since_us),
        moment(stuck.until_us),
        visible(stuck.detail),
    )


run.__name__ = "work"
