"""`ledgerstone show`: one session with its messages; the only verb that prints their bodies.

Besides the conversation: numbers, money, bytes, tool calls.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec.structs import asdict

from ledgerstone import Cost, Execution, Message, Session, Store
from ledgerstone.cli.options import (
    AsJson,
    SessionId,
    StoreUrl,
    Tenant,
    find_session,
    option,
    reading,
)
from ledgerstone.cli.output import (
    ROLE_STYLES,
    Columns,
    moment,
    plural,
    print_facts,
    print_items,
    print_json,
    print_line,
    print_text,
    size,
    visible,
)
from ledgerstone.cli.sessions import state_of
from ledgerstone.errors import BranchNotFound
from ledgerstone.money import in_units
from ledgerstone.records.artifacts import Artifact
from ledgerstone.records.blobs import Attachment
from ledgerstone.records.drafts import DraftRecord
from ledgerstone.records.parts import Reasoning, Text, ToolCall, ToolResult
from ledgerstone.records.sessions import Head
from ledgerstone.records.stats import Stats, UsageSum

T = TypeVar("T")

EXAMPLE = "Example: ledgerstone show trip --store agent.db --last 5"
INDENT = "    "
LINES_MAX = 20
"""Maximum rows of each table; --json has all of them."""

Last = Annotated[int, option("--last", "N", "The newest N messages; 0 for all.")]
Branch = Annotated[str, option("--branch", "NAME", "Whose path to read.")]

MODELS: Columns[UsageSum] = {
    "MODEL": lambda one: one.by["model"] or "?",
    "CALLS": lambda one: one.calls,
    "INPUT": lambda one: one.usage.input,
    "CACHED": lambda one: one.usage.cached_input,
    "OUTPUT": lambda one: one.usage.output,
    "COST": lambda one: money(one.costs, one.unpriced),
}
ARTIFACTS: Columns[Artifact] = {
    "ARTIFACT": lambda one: one.name,
    "VERSION": lambda one: one.version,
    "SIZE": lambda one: size(one.size_bytes),
    "TYPE": lambda one: one.media_type,
    "TOOL": lambda one: one.tool,
    "CREATED": lambda one: moment(one.created_us),
}
EXECUTIONS: Columns[Execution] = {
    "TOOL CALL": lambda one: one.call_id,
    "TOOL": lambda one: one.tool,
    "STATUS": lambda one: one.status,
    "ATTEMPTS": lambda one: one.attempts,
    "TOOK": lambda one: f"{one.duration_ms} ms" if one.resolved else "",
    "STARTED": lambda one: moment(one.started_us),
}
ATTACHMENTS: Columns[Attachment] = {
    "ATTACHMENT": lambda one: one.id,
    "WHERE": lambda one: "blob" if one.uri == f"blob:{one.id}" else one.uri,
    "STATE": lambda one: "intent" if one.committed_us is None else "used",
    "SINCE": lambda one: moment(one.intent_us if one.committed_us is None else one.committed_us),
}
DRAFTS: Columns[DraftRecord] = {
    "DRAFT": lambda one: one.id,
    "OWNER": lambda one: one.owner,
    "CHARACTERS": lambda one: len(one.text),
    "UPDATED": lambda one: moment(one.updated_us),
}


class Extras(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored beside the messages of a session, as --json prints it."""

    stats: Stats
    usage: list[UsageSum]
    artifacts: list[Artifact]
    executions: list[Execution]
    attachments: list[Attachment]
    drafts: list[DraftRecord]


def run(
    session: SessionId,
    *,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    last: Last = 50,
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Show a session: where it stands, what it keeps and cost, and what was said."""
    with reading(store, tenant) as opened:
        found = find_session(opened, session)
        head = opened.sessions.head(session)
        if branch not in {one.name for one in opened.branches.list(session)}:
            raise BranchNotFound(branch)
        messages = (
            opened.messages.last(session, last, branch=branch)
            if last
            else opened.messages.history(session, branch=branch)
        )
        count = opened.messages.count(session, branch=branch)
        extras = _extras(opened, session)
    if as_json:
        print_json({"session": found, "head": head, **asdict(extras), "messages": messages})
        return
    _print_session(found, head or Head())
    _print_extras(extras)
    if count > len(messages):
        print_line()
        print_line(f"... {plural(count - len(messages), 'earlier message')}; --last 0 shows all")
    for message in messages:
        _print_message(message)


def _extras(store: Store, session: str) -> Extras:
    return Extras(
        stats=store.sessions.stats(session),
        usage=store.usage.summary(by="model", session=session),
        artifacts=store.artifacts.list(session=session, newest=False),
        executions=store.executions.list(session=session),
        attachments=store.attachments.list(session),
        drafts=store.drafts.list(session),
    )


def _print_session(session: Session, head: Head) -> None:
    names = ("user", "app", "title", "model", "parent")
    facts = {
        "session": session.id,
        **{name: getattr(session, name) for name in names},
        "state": state_of(session, head),
        "created": moment(session.created_us),
        "updated": moment(session.updated_us),
        "deleted": moment(session.deleted_us),
        "revision": head.revision,
        "messages": head.messages,
        "branches": ", ".join(one.name for one in head.branches),
    }
    print_facts(facts)


def _print_extras(extras: Extras) -> None:
    """The numbers in a line, and a table for each of the others that there is."""
    print_facts({"calls": _calls(extras.stats)})
    _print_newest(MODELS, extras.usage)
    _print_newest(ARTIFACTS, extras.artifacts)
    _print_newest(EXECUTIONS, extras.executions)
    _print_newest(ATTACHMENTS, extras.attachments)
    _print_newest(DRAFTS, extras.drafts)


def money(costs: Sequence[Cost], unpriced: int = 0) -> str:
    """`0.012 USD`, one amount for each currency; what has no price is said, never taken as 0."""
    known = [f"{in_units(cost.nano)} {cost.currency}" for cost in costs]
    if unpriced:
        known.append(f"{plural(unpriced, 'call')} without a price")
    return " + ".join(known) or "nothing"


def _calls(stats: Stats) -> str:
    tools = plural(stats.tool_calls, "tool call")
    if stats.tool_calls:
        ended = f"{stats.tool_calls_succeeded} succeeded, {stats.tool_calls_failed} failed"
        tools += f" ({ended}, {stats.average_duration_ms} ms on average)"
    models = plural(stats.calls, "model call")
    if stats.calls:
        models += f", {plural(stats.usage.total_tokens, 'token')}"
        models += f", {money(stats.costs, stats.unpriced)}"
    return f"{models}; {tools}"


def _print_newest(columns: Columns[T], items: Sequence[T]) -> None:
    if not items:
        return
    print_line()
    print_items(columns, items[-LINES_MAX:])
    if len(items) > LINES_MAX:
        print_line(f"... {len(items) - LINES_MAX} more; --json has all of them", "dim")


def _print_message(message: Message) -> None:
    notes = [f"{message.seq:>4}", message.role, moment(message.created_us), message.id]
    if message.version:
        notes.append(f"version {message.version + 1}")
    if message.body.finish_reason not in (None, "stop", "tool_calls"):
        notes.append(str(message.body.finish_reason))
    print_line()
    print_line("  ".join(notes), ROLE_STYLES.get(message.role, ""))
    for part in message.parts:
        print_text(_part(part), INDENT)


def _part(part: Any) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Reasoning):
        return f"(thinks) {part.text}"
    if isinstance(part, ToolCall):
        return visible(f"calls {part.name} {_json(part.arguments)}  [{part.id}]")
    if isinstance(part, ToolResult):
        word = "failed" if part.is_error else "returns"
        return visible(f"{word} {_json(part.content)}  [{part.call_id}]")
    return visible(_json(msgspec.to_builtins(part)))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
