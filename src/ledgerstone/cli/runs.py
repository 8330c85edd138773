"""`ledgerstone runs`: what agents did, and who started whom."""

from __future__ import annotations

from typing import Annotated

from ledgerstone import Store
from ledgerstone.cli.failures import CliError
from ledgerstone.cli.options import (
    AsJson,
    Cursor,
    Limit,
    MaybeSession,
    StoreUrl,
    Tenant,
    find_session,
    option,
    reading,
)
from ledgerstone.cli.output import Columns, moment, print_json, print_page, print_table
from ledgerstone.records.runs import Run, RunTree

EXAMPLE = "Example: ledgerstone runs trip --store agent.db --status waiting"
INDENT = "  "

Status = Annotated[
    str | None, option("--status", "STATUS", "Only created, running, waiting or done ones.")
]
Below = Annotated[
    str | None, option("--tree", "RUN", "This run and those it started, over sessions.")
]


def _state(run: Run) -> str:
    """The status, and why it waits or how it ended when that is known."""
    ended = run.outcome.termination if run.outcome is not None else run.termination
    if run.status == "done" and ended is not None:
        return f"done, {ended.type}"
    reason = run.waiting_reason
    return run.status if reason is None else f"waiting, {reason}"


RUNS: Columns[Run] = {
    "RUN": lambda run: run.id,
    "SESSION": lambda run: run.session,
    "AGENT": lambda run: run.agent,
    "STATUS": _state,
    "CREATED": lambda run: moment(run.created_us),
    "UPDATED": lambda run: moment(run.updated_us),
    "PARENT": lambda run: run.parent_run,
}


def run(
    session: MaybeSession = None,
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
            return
        page = opened.runs.list(
            session=session, status=status, limit=limit, cursor=cursor, total=True
        )
        if session is not None and not page.items:
            find_session(opened, session)
    none = "no runs" if session is None else f"no runs of session {session}"
    print_page("runs", page, RUNS, as_json=as_json, none=none)


def _show_tree(store: Store, id: str, as_json: bool) -> None:
    tree = store.runs.tree(id)
    if tree is None:
        raise CliError(f"no run {id!r} here; `ledgerstone runs` lists what is there")
    if as_json:
        print_json({"tree": tree})
        return
    headers = [name for name in RUNS if name != "PARENT"]
    rows = []
    for depth, one in _lines(tree):
        row = [RUNS[name](one) for name in headers]
        rows.append([f"{INDENT * depth}{row[0]}", *row[1:]])
    print_table(headers, rows)


def _lines(tree: RunTree) -> list[tuple[int, Run]]:
    """Parents before children, with how deep each stands."""
    found, stack = [], [(0, tree)]
    while stack:
        depth, top = stack.pop()
        found.append((depth, top.run))
        stack.extend((depth + 1, child) for child in reversed(top.children))
    return found
