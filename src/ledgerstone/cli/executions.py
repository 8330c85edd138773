"""`ledgerstone executions`: tool calls without an outcome, and deciding about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from ledgerstone import Execution, Store
from ledgerstone.api_sync.executions import Executions
from ledgerstone.cli.failures import CliError
from ledgerstone.cli.options import (
    AsJson,
    StoreUrl,
    Tenant,
    Yes,
    argument,
    confirm,
    find_session,
    given,
    option,
    reading,
    writing,
)
from ledgerstone.cli.output import (
    Columns,
    call_text,
    moment,
    plural,
    print_answer,
    print_facts,
    print_items,
    print_json,
    print_line,
)
from ledgerstone.codec import encode_json, parse_strict
from ledgerstone.errors import ExecutionNotFound, InvalidValue

EXAMPLE = "Example: ledgerstone executions --store agent.db"
EXAMPLE_SHOW = "Example: ledgerstone executions show ID --store agent.db"
EXAMPLE_FINISH = "Example: ledgerstone executions finish ID --result '{\"receipt\": 7}'"
EXAMPLE_FAIL = "Example: ledgerstone executions fail ID --error 'the bank has no such payment'"
EXAMPLE_RETRY = "Example: ledgerstone executions retry ID --store agent.db"


def _call(execution: Execution) -> str:
    return call_text(execution.tool, execution.arguments)


EXECUTIONS: Columns[Execution] = {
    "EXECUTION": lambda one: one.id,
    "SESSION": lambda one: one.session,
    "CALL": _call,
    "STATUS": lambda one: one.status,
    "ATTEMPTS": lambda one: one.attempts,
    "STARTED": lambda one: moment(one.started_us),
}

OfSession = Annotated[
    str | None, option("--session", "ID", "All of this session, also those with an outcome.")
]
Limit = Annotated[int, option("--limit", "N", "At most so many.", min=1)]
Id = Annotated[str, argument("ID", "The id of the execution.")]
Result = Annotated[str, option("--result", "JSON", "What the tool returned.")]
Error = Annotated[str, option("--error", "TEXT", "Why it failed.")]

app = typer.Typer(name="executions", epilog=EXAMPLE)


@app.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    *,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    session: OfSession = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List tool calls without an outcome, those that need a decision first; decide about one.

    An execution is `unknown` when its worker is gone: nobody knows whether the tool ran. Work that
    needs it is parked until somebody says what came of it: finish, fail or retry.
    """
    if context.invoked_subcommand is not None:
        return
    with reading(store, tenant) as opened:
        if session is None:
            found = opened.executions.unresolved()
        else:
            found = opened.executions.list(session=find_session(opened, session).id)
    found.sort(key=lambda one: not needs_decision(one))
    if as_json:
        print_json({"executions": found[:limit], "total": len(found)})
        return
    none = "no tool call waits for its outcome" if session is None else "no tool calls"
    print_items(EXECUTIONS, found[:limit], none=none)
    if len(found) > limit:
        print_line(f"{limit} of {len(found)}; --limit {len(found)} shows all", "dim")
    if any(map(needs_decision, found)):
        print_line("next: `ledgerstone executions show ID`, then finish, fail or retry it", "bold")


@app.command(epilog=EXAMPLE_SHOW)
def show(
    context: typer.Context,
    id: Id,
    *,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Show a tool call, what came of it, and which work waits for it."""
    with reading(given(context, "store"), given(context, "tenant")) as opened:
        found = _find(opened, id)
        batches = opened.work.list(found.session)
    waiting = [batch.id for batch in batches if batch.waiting_for == found.id]
    if given(context, "as_json"):
        print_json({"execution": found, "parked": waiting})
        return
    print_facts(
        {
            "execution": found.id,
            "session": found.session,
            "run": found.run_id,
            "call": found.call_id,
            "tool": found.tool,
            "arguments": _json(found.arguments),
            "key": found.key,
            "status": _status(found),
            "attempts": found.attempts,
            "started": moment(found.started_us),
            "finished": moment(found.finished_us),
            "result": _json(found.result) if found.status == "succeeded" else None,
            "error": _json(found.error) if found.status == "failed" else None,
            "parked": ", ".join(waiting),
        }
    )
    if needs_decision(found):
        print_line(
            "next: find out with the key whether the tool ran, then finish, fail or retry it"
        )


@app.command(epilog=EXAMPLE_FINISH)
def finish(
    context: typer.Context,
    id: Id,
    *,
    result: Result,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """The tool did run: keep its result, and let the work that waits go on."""
    try:
        value = parse_strict(result, "result")
    except InvalidValue as error:
        hint = "text needs quotes of its own: --result '\"done\"'"
        raise CliError(f"--result: {error.reason}; {hint}") from None
    _decide(context, id, "Keep this result of", lambda calls: calls.finish(id, result=value))


@app.command(epilog=EXAMPLE_FAIL)
def fail(
    context: typer.Context,
    id: Id,
    *,
    error: Error,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """The tool did not do it: keep the error, and let the work that waits go on."""
    _decide(context, id, "Keep this error of", lambda calls: calls.finish(id, error=error))


@app.command(epilog=EXAMPLE_RETRY)
def retry(
    context: typer.Context,
    id: Id,
    *,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Let a worker call the tool once more, with the same key; the work that waits goes on.

    The tool may have run before: choose this when it knows its key, or may run twice.
    """
    _decide(context, id, "Call once more", lambda calls: calls.retry(id, later=True))


def _decide(
    context: typer.Context, id: str, question: str, decide: Callable[[Executions], Execution]
) -> None:
    with writing(given(context, "store"), given(context, "tenant")) as opened:
        found = _find(opened, id)
        if found.status == "started" and found.fence is not None:
            raise CliError(
                f"execution {id} is running: its worker holds session {found.session}; decide "
                "when `ledgerstone executions` shows it as unknown"
            )
        call = f"{_call(found)} in session {found.session}"
        confirm(f"{question} {call}?", yes=bool(given(context, "yes")))
        waiting = [one for one in opened.work.list(found.session) if one.waiting_for == found.id]
        done = decide(opened.executions)
    woken = f"; {plural(len(waiting), 'batch')} can go on" if waiting else ""
    text = f"{_status(done)}: {call}{woken}"
    print_answer(done, text, "green", as_json=given(context, "as_json"))


def needs_decision(execution: Execution) -> bool:
    """Whether nobody is known to be at it: its worker is gone, or it began without a lease."""
    return execution.status == "unknown" or (
        execution.status == "started" and execution.fence is None
    )


def _find(store: Store, id: str) -> Execution:
    found = store.executions.get(id)
    if found is None:
        raise ExecutionNotFound(id)
    return found


def _status(execution: Execution) -> str:
    if execution.status == "pending":
        return "pending, a worker calls it again"
    return execution.status


def _json(value: Any) -> str:
    return encode_json(value, "value").decode()
