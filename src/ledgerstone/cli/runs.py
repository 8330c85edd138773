"""`ledgerstone runs`: what agents did, and who started whom."""

from __future__ import annotations

from typing import Annotated

import typer

from ledgerstone import Store
from ledgerstone.cli.failures import CliError
from ledgerstone.cli.options import AsJson, StoreUrl, Tenant, reading
from ledgerstone.cli.output import moment, print_json, print_line, print_table, visible
from ledgerstone.errors import SessionNotFound
from ledgerstone.records.runs import Run, RunTree

EXAMPLE = "Example: ledgerstone runs trip --store agent.db --status waiting"

OfSession = Annotated[
    str | None,
    typer.Argument(metavar="[SESSION]", help="Only of this session.", show_default=False),
]
Status = Annotated[
    str | None,
    typer.Option(
        "--status",
        metavar="STATUS",
        help="Only created, running, waiting or done ones.",
        show_default=False,
    ),
]
Below = Annotated[
    str | None,
    typer.Option(
        "--tree",
        metavar="RUN",
        help="This run and those it started, over sessions.",
        show_default=False,
    ),
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, up to 200.")]
Cursor = Annotated[
    str | None,
    typer.Option("--cursor", metavar="TEXT", help="Go on where a page ended.", show_default=False),
]
HEADERS = ("RUN", "SESSION", "AGENT", "STATUS", "CREATED", "UPDATED", "PARENT")
INDENT = "  "


def run(
    session: OfSession = None,
    *,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    status: Status = None,
    tree: Below = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List the runs of a store or of one session, in the order they were created.

    A run is one activation of an agent. What it was given and what it gave is only in the JSON.
    """
    if tree is not None and (session, status, cursor) != (None, None, None):
        raise CliError("--tree shows a whole tree; give it without SESSION, --status and --cursor")
    with reading(store, tenant) as opened:
        if tree is not None:
            _show_tree(opened, tree, as_json)
        else:
            _show_list(opened, session, status, limit, cursor, as_json)


def _show_list(
    store: Store,
    session: str | None,
    status: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    page = store.runs.list(session=session, status=status, limit=limit, cursor=cursor, total=True)
    if session is not None and not page.items and store.sessions.get(session) is None:
        raise SessionNotFound(session)
    if as_json:
        print_json({"runs": page.items, "total": page.total, "cursor": page.cursor})
        return
    if not page.items:
        print_line("no runs" if session is None else f"no runs of session {visible(session)}")
        return
    print_table(HEADERS, [_row(one) for one in page.items])
    if page.has_more:
        shown = f"{len(page.items)} of {page.total}"
        print_line(f"{shown}; the next ones: --cursor {page.cursor}", "dim")


def _show_tree(store: Store, id: str, as_json: bool) -> None:
    tree = store.runs.tree(id)
    if tree is None:
        raise CliError(f"no run {id!r} here; `ledgerstone runs` lists what is there")
    if as_json:
        print_json({"tree": tree})
        return
    print_table(HEADERS[:-1], [_row(one, INDENT * depth)[:-1] for depth, one in _lines(tree)])


def _lines(tree: RunTree) -> list[tuple[int, Run]]:
    """Parents before children, with how deep each stands."""
    found, stack = [], [(0, tree)]
    while stack:
        depth, top = stack.pop()
        found.append((depth, top.run))
        stack.extend((depth + 1, child) for child in reversed(top.children))
    return found


def _row(run: Run, indent: str = "") -> tuple[str, ...]:
    return (
        indent + visible(run.id),
        visible(run.session),
        visible(run.agent),
        _state(run),
        moment(run.created_us),
        moment(run.updated_us),
        visible(run.parent_run or ""),
    )


def _state(run: Run) -> str:
    """The status, and why it waits or how it ended when that is known."""
    ended = run.outcome.termination if run.outcome is not None else run.termination
    if run.status == "done" and ended is not None:
        return f"done, {ended.type}"
    reason = run.waiting_reason
    return run.status if reason is None else f"waiting, {reason}"


run.__name__ = "runs"
