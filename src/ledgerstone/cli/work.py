"""`ledgerstone work`: what is queued, why it does not move, what became of it."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from msgspec import to_builtins

from ledgerstone import Store
from ledgerstone.cli.failures import CliError
from ledgerstone.cli.options import (
    AsJson,
    Limit,
    StoreUrl,
    Tenant,
    argument,
    find_session,
    option,
    reading,
    seconds,
    switch,
    writing,
)
from ledgerstone.cli.output import (
    Columns,
    moment,
    plural,
    print_answer,
    print_items,
    print_json,
    print_page,
)
from ledgerstone.clock import SystemClock
from ledgerstone.errors import BatchNotFound
from ledgerstone.records.work import END_STATES, ORDERS, Batch, DeadBatch, EndedBatch, Stuck

T = TypeVar("T", bound=str)

EXAMPLE = "Example: ledgerstone work --store agent.db; ledgerstone work replay BATCH"
REPLAY, INTERRUPT, PRUNE = "replay", "interrupt", "prune"


def _attempts(batch: Batch) -> str:
    limit = "" if batch.max_attempts is None else f" of {batch.max_attempts}"
    return f"{batch.attempts}{limit}"


def _state(batch: Batch) -> str:
    if batch.waiting_for is not None:
        return f"parked, execution {batch.waiting_for}"
    if batch.claim is not None:
        return f"claimed, fence {batch.claim_fence}"
    if batch.available_us > SystemClock().now_us():
        return f"due {moment(batch.available_us)}"
    return "ready"


QUEUED: Columns[Batch] = {
    "BATCH": lambda batch: batch.id,
    "QUEUE": lambda batch: batch.queue,
    "PRIORITY": lambda batch: batch.priority,
    "ITEMS": lambda batch: len(batch.payloads),
    "ATTEMPTS": _attempts,
    "STATE": _state,
    "ENQUEUED": lambda batch: moment(batch.enqueued_us),
    "LAST ERROR": lambda batch: batch.last_error,
}
DEAD: Columns[DeadBatch] = {
    "BATCH": lambda one: one.batch.id,
    "SESSION": lambda one: one.batch.session,
    "QUEUE": lambda one: one.batch.queue,
    "ATTEMPTS": lambda one: plural(one.batch.attempts, "attempt"),
    "DIED": lambda one: moment(one.dead_us),
    "REASON": lambda one: one.reason,
}
ENDED: Columns[EndedBatch] = {
    "BATCH": lambda one: one.batch.id,
    "SESSION": lambda one: one.batch.session,
    "QUEUE": lambda one: one.batch.queue,
    "ATTEMPTS": lambda one: plural(one.batch.attempts, "attempt"),
    "ENDED": lambda one: moment(one.ended_us),
    "REASON": lambda one: one.reason,
}
STUCK: Columns[Stuck] = {
    "SESSION": lambda one: one.session,
    "REASON": lambda one: one.reason,
    "SINCE": lambda one: moment(one.since_us),
    "UNTIL": lambda one: moment(one.until_us),
    "DETAIL": lambda one: one.detail,
}

Session = Annotated[
    str | None, argument("SESSION", "Only of this session; or `replay`, `interrupt`, `prune`.")
]
What = Annotated[
    str | None,
    argument(
        "BATCH",
        "After `replay`: the dead batch to queue again; after `interrupt`: the session.",
    ),
]
Ended = Annotated[
    str | None,
    option("--ended", "STATE", "What is done, cancelled, dead or superseded instead."),
]
InOrder = Annotated[str, option("--order", "ORDER", "Queued work by `arrival` or `priority`.")]
OlderThan = Annotated[
    str | None,
    option(
        "--older-than",
        "TIME",
        "After `prune`: what ended longer ago goes, 90s, 15m, 1h, 7d, 2w.",
    ),
]
Dead = Annotated[bool, switch("--dead", "The dead letters instead.")]
Why = Annotated[bool, switch("--stuck", "Why it does not move.")]
Cursor = Annotated[str | None, option("--cursor", "TEXT", "Go on where --dead or --ended did.")]


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
        if session is not None:
            find_session(opened, session)
        if dead:
            page = opened.work.dead(session=session, limit=limit, cursor=cursor, total=True)
            none = "no dead letters"
            print_page("dead", page, DEAD, as_json=as_json, none=none, plain=_plain_ended)
        elif ended is not None:
            state = _one_of(ended, END_STATES, "--ended")
            past = opened.work.ended(state, session=session, limit=limit, cursor=cursor)
            none = "no such work is recorded"
            print_page("ended", past, ENDED, as_json=as_json, none=none, plain=_plain_ended)
        elif stuck or session is None:
            found = opened.work.stuck(session, limit=limit)
            if as_json:
                print_json({"stuck": found})
            else:
                print_items(STUCK, found, none="no work is waiting")
        else:
            batches = opened.work.list(session, order=_one_of(order, ORDERS, "--order"))
            if as_json:
                print_json({"batches": [*map(_plain, batches)]})
            else:
                print_items(QUEUED, batches, none="nothing is queued")


def _change(
    store: Store, verb: str | None, what: str | None, older_than: str | None, as_json: bool
) -> None:
    """Carry out a verb with what belongs to it."""
    if verb == PRUNE and what is None and older_than is not None:
        pruned = store.work.prune(older_than_s=seconds(older_than))
        print_answer({"pruned": pruned}, f"{plural(pruned, 'record')} removed", as_json=as_json)
    elif verb == REPLAY and what is not None and older_than is None:
        batch = _replayed(store, what)
        text = f"{batch.id} is queued again in session {batch.session}"
        print_answer({"replayed": _plain(batch)}, text, as_json=as_json)
    elif verb == INTERRUPT and what is not None and older_than is None:
        done = store.work.interrupt(what)
        superseded = f"{plural(done.superseded, 'batch')} superseded"
        text = f"{superseded}, {len(done.running)} still in work; epoch {done.epoch}"
        plain = {**to_builtins(done), "running": [*map(_plain, done.running)]}
        print_answer(plain, text, as_json=as_json)
    else:
        raise CliError(
            "one session at a time; to change something: work replay BATCH, "
            "work interrupt SESSION, or work prune --older-than TIME"
        )


def _one_of(given: str, known: tuple[T, ...], option: str) -> T:
    for one in known:
        if one == given:
            return one
    raise CliError(f"{option} {given!r} is none of {', '.join(map(str, known))}")


def _replayed(store: Store, batch: str) -> Batch:
    try:
        return store.work.replay(batch)
    except BatchNotFound:
        raise CliError(f"no dead batch {batch!r} here; `work --dead` lists them") from None


def _plain(batch: Batch) -> dict[str, Any]:
    """Everything but what was said: only `show` prints that."""
    return {**to_builtins(batch), "payloads": len(batch.payloads)}


def _plain_ended(one: DeadBatch | EndedBatch) -> dict[str, Any]:
    return {**to_builtins(one), "batch": _plain(one.batch)}
