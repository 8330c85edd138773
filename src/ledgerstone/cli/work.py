"""`ledgerstone work`: what is queued, why it does not move, what became of it."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
import typer

from ledgerstone import Store
from ledgerstone.cli.failures import CliError
from ledgerstone.cli.gc import seconds
from ledgerstone.cli.options import AsJson, StoreUrl, Tenant, reading, writing
from ledgerstone.cli.output import moment, plural, print_json, print_line, print_table, visible
from ledgerstone.clock import SystemClock
from ledgerstone.errors import BatchNotFound, SessionNotFound
from ledgerstone.records.sessions import Page
from ledgerstone.records.work import (
    END_STATES,
    ORDERS,
    Batch,
    DeadBatch,
    EndedBatch,
    Interrupted,
    Stuck,
)

T = TypeVar("T", bound=str)

EXAMPLE = "Example: ledgerstone work --store agent.db; ledgerstone work replay BATCH"
REPLAY, INTERRUPT, PRUNE = "replay", "interrupt", "prune"
QUEUED = ("BATCH", "QUEUE", "PRIORITY", "ITEMS", "ATTEMPTS", "STATE", "ENQUEUED", "LAST ERROR")
DEAD = ("BATCH", "SESSION", "QUEUE", "ATTEMPTS", "DIED", "REASON")
ENDED = ("BATCH", "SESSION", "QUEUE", "ATTEMPTS", "ENDED", "REASON")
STUCK = ("SESSION", "REASON", "SINCE", "UNTIL", "DETAIL")

Session = Annotated[
    str | None,
    typer.Argument(
        metavar="SESSION",
        help="Only of this session; or `replay`, `interrupt`, `prune`.",
        show_default=False,
    ),
]
What = Annotated[
    str | None,
    typer.Argument(
        metavar="BATCH",
        help="After `replay`: the dead batch to queue again; after `interrupt`: the session.",
        show_default=False,
    ),
]
Ended = Annotated[
    str | None,
    typer.Option(
        "--ended",
        metavar="STATE",
        help="What is done, cancelled, dead or superseded instead.",
        show_default=False,
    ),
]
InOrder = Annotated[
    str, typer.Option("--order", metavar="ORDER", help="Queued work by `arrival` or `priority`.")
]
OlderThan = Annotated[
    str | None,
    typer.Option(
        "--older-than",
        metavar="TIME",
        help="After `prune`: what ended longer ago goes, 90s, 15m, 1h, 7d, 2w.",
        show_default=False,
    ),
]
Dead = Annotated[bool, typer.Option("--dead", help="The dead letters instead.")]
Why = Annotated[bool, typer.Option("--stuck", help="Why it does not move.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, up to 200.")]
Cursor = Annotated[
    str | None,
    typer.Option(
        "--cursor", metavar="TEXT", help="Go on where --dead or --ended did.", show_default=False
    ),
]


def run(
    session: Session = None,
    what: What = None,
    *,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    dead: Dead = False,
    stuck: Why = False,
    ended: Ended = None,
    order: InOrder = "arrival",
    older_than: OlderThan = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """Show queued work: of one session, or which sessions have some and why they wait."""
    if dead + stuck + (ended is not None) > 1:
        raise CliError("of --dead, --stuck and --ended two are two questions; ask one of them")
    if what is not None or older_than is not None:
        with writing(store, tenant) as opened:
            _change(opened, session, what, older_than, as_json)
        return
    with reading(store, tenant) as opened:
        if session is not None and opened.sessions.get(session) is None:
            raise SessionNotFound(session)
        if dead:
            page = opened.work.dead(session=session, limit=limit, cursor=cursor, total=True)
            _print_dead(page, as_json)
        elif ended is not None:
            state = _one_of(ended, END_STATES, "--ended")
            _print_ended(
                opened.work.ended(state, session=session, limit=limit, cursor=cursor), as_json
            )
        elif stuck or session is None:
            _print_stuck(opened.work.stuck(session, limit=limit), as_json)
        else:
            known = _one_of(order, ORDERS, "--order")
            _print_queued(opened.work.list(session, order=known), as_json)


def _change(
    store: Store, verb: str | None, what: str | None, older_than: str | None, as_json: bool
) -> None:
    """Carry out a verb with what belongs to it."""
    if verb == PRUNE and what is None and older_than is not None:
        _print_pruned(store.work.prune(older_than_s=seconds(older_than)), as_json)
    elif verb == REPLAY and what is not None and older_than is None:
        _print_replayed(_replayed(store, what), as_json)
    elif verb == INTERRUPT and what is not None and older_than is None:
        _print_interrupted(store.work.interrupt(what), as_json)
    else:
        raise CliError(
            "one session at a time; to change something: work replay BATCH, "
            "work interrupt SESSION, or work prune --older-than TIME"
        )


def _one_of(given: str, known: tuple[T, ...], option: str) -> T:
    for one in known:
        if one == given:
            return one
    raise CliError(f"{option} {visible(given)!r} is none of {', '.join(map(str, known))}")


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


def _print_interrupted(found: Interrupted, as_json: bool) -> None:
    if as_json:
        running = [_plain(batch) for batch in found.running]
        print_json({**msgspec.to_builtins(found), "running": running})
        return
    print_line(
        f"{plural(found.superseded, 'batch')} superseded, "
        f"{len(found.running)} still in work; epoch {found.epoch}"
    )


def _print_pruned(pruned: int, as_json: bool) -> None:
    if as_json:
        print_json({"pruned": pruned})
        return
    print_line(f"{plural(pruned, 'record')} removed")


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
    print_table(DEAD, [_ended_row(one.batch, one.dead_us, one.reason) for one in page.items])
    if page.has_more:
        print_line(f"{len(page)} of {page.total}; the next ones: --cursor {page.cursor}", "dim")


def _print_ended(page: Page[EndedBatch], as_json: bool) -> None:
    if as_json:
        items = [{**msgspec.to_builtins(one), "batch": _plain(one.batch)} for one in page.items]
        print_json({"ended": items, "cursor": page.cursor})
        return
    if not page.items:
        print_line("no such work is recorded")
        return
    print_table(ENDED, [_ended_row(one.batch, one.ended_us, one.reason) for one in page.items])
    if page.has_more:
        print_line(f"the next ones: --cursor {page.cursor}", "dim")


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


def _ended_row(batch: Batch, ended_us: int, reason: str) -> tuple[str, ...]:
    return (
        visible(batch.id),
        visible(batch.session),
        visible(batch.queue),
        plural(batch.attempts, "attempt"),
        moment(ended_us),
        visible(reason),
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
