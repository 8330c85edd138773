"""`ledgerstone show`: one session with its messages; the only verb that prints their bodies."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import typer

from ledgerstone import Message, Session
from ledgerstone.cli.options import AsJson, SessionId, StoreUrl, Tenant, reading
from ledgerstone.cli.output import moment, plural, print_json, print_line, visible
from ledgerstone.cli.sessions import state_of
from ledgerstone.cli.show_kept import gather, print_kept
from ledgerstone.errors import BranchNotFound, SessionNotFound
from ledgerstone.records.parts import Reasoning, Text, ToolCall, ToolResult
from ledgerstone.records.sessions import Head

EXAMPLE = "Example: ledgerstone show trip --store agent.db --last 5"
INDENT = "    "
STYLES = {"system": "magenta", "user": "cyan", "assistant": "green", "tool": "yellow"}

Last = Annotated[int, typer.Option("--last", metavar="N", help="The newest N messages; 0 for all.")]
Branch = Annotated[str, typer.Option("--branch", metavar="NAME", help="Whose path to read.")]


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
        found = opened.sessions.get(session)
        if found is None:
            raise SessionNotFound(session)
        head = opened.sessions.head(session)
        if branch not in {one.name for one in opened.branches.list(session)}:
            raise BranchNotFound(branch)
        messages = (
            opened.messages.last(session, last, branch=branch)
            if last
            else opened.messages.history(session, branch=branch)
        )
        count = opened.messages.count(session, branch=branch)
        kept = gather(opened, session)
    if as_json:
        fields = {name: getattr(kept, name) for name in kept.__struct_fields__}
        print_json({"session": found, "head": head, **fields, "messages": messages})
        return
    _print_head(found, head)
    print_kept(kept)
    if count > len(messages):
        print_line()
        print_line(f"... {plural(count - len(messages), 'earlier message')}; --last 0 shows all")
    for message in messages:
        _print_message(message)


def _print_head(session: Session, head: Head | None) -> None:
    facts = {
        "session": session.id,
        "user": session.user,
        "app": session.app,
        "title": session.title,
        "model": session.model,
        "parent": session.parent,
        "state": state_of(session, head),
        "created": moment(session.created_us),
        "updated": moment(session.updated_us),
        "deleted": moment(session.deleted_us),
        "revision": "0" if head is None else str(head.revision),
        "messages": "0" if head is None else str(head.messages),
        "branches": "" if head is None else ", ".join(one.name for one in head.branches),
    }
    for name, value in facts.items():
        if value:
            print_line(f"{name:<10}{visible(value)}")


def _print_message(message: Message) -> None:
    notes = [f"{message.seq:>4}", message.role, moment(message.created_us), visible(message.id)]
    if message.version:
        notes.append(f"version {message.version + 1}")
    if message.body.finish_reason not in (None, "stop", "tool_calls"):
        notes.append(str(message.body.finish_reason))
    print_line()
    print_line("  ".join(notes), STYLES.get(message.role, ""))
    for part in message.parts:
        for line in _part(part).split("\n"):
            print_line(INDENT + line)


def _part(part: Any) -> str:
    if isinstance(part, Text):
        return visible(part.text, lines=True)
    if isinstance(part, Reasoning):
        return visible(f"(thinks) {part.text}", lines=True)
    if isinstance(part, ToolCall):
        return visible(f"calls {part.name} {_json(part.arguments)}  [{part.id}]")
    if isinstance(part, ToolResult):
        word = "failed" if part.is_error else "returns"
        return visible(f"{word} {_json(part.content)}  [{part.call_id}]")
    return visible(_json(msgspec.to_builtins(part)))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


run.__name__ = "show"
