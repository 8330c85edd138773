"""What `ledgerstone show` tells besides the conversation: numbers, money, bytes, tool calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ledgerstone import Cost, Execution, Store
from ledgerstone.cli.output import moment, plural, print_line, print_table, size, visible
from ledgerstone.money import in_units
from ledgerstone.records.artifacts import Artifact
from ledgerstone.records.blobs import Attachment
from ledgerstone.records.drafts import DraftRecord
from ledgerstone.records.stats import Stats, UsageSum

LINES_MAX = 20
"""So many of each are printed; --json has all of them."""

MODELS = ("MODEL", "CALLS", "INPUT", "CACHED", "OUTPUT", "COST")
ARTIFACTS = ("ARTIFACT", "VERSION", "SIZE", "TYPE", "TOOL", "CREATED")
EXECUTIONS = ("TOOL CALL", "TOOL", "STATUS", "ATTEMPTS", "TOOK", "STARTED")
DRAFTS = ("DRAFT", "OWNER", "CHARACTERS", "UPDATED")
ATTACHMENTS = ("ATTACHMENT", "WHERE", "STATE", "SINCE")


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, as --json prints it."""

    stats: Stats
    usage: list[UsageSum]
    artifacts: list[Artifact]
    executions: list[Execution]
    attachments: list[Attachment]
    drafts: list[DraftRecord]


def gather(store: Store, session: str) -> Kept:
    """Everything that is kept beside the messages of a session."""
    return Kept(
        stats=store.sessions.stats(session),
        usage=store.usage.summary(by="model", session=session),
        artifacts=store.artifacts.list(session=session, newest=False),
        executions=store.executions.list(session=session),
        attachments=store.attachments.list(session),
        drafts=store.drafts.list(session),
    )


def print_kept(kept: Kept) -> None:
    """The numbers in a line, and a table for each of the others that there is."""
    print_line(f"{'calls':<10}{_calls(kept.stats)}")
    _print(MODELS, [_model_row(one) for one in kept.usage])
    _print(ARTIFACTS, [_artifact_row(one) for one in kept.artifacts])
    _print(EXECUTIONS, [_execution_row(one) for one in kept.executions])
    _print(ATTACHMENTS, [_attachment_row(one) for one in kept.attachments])
    _print(DRAFTS, [_draft_row(one) for one in kept.drafts])


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


def _print(headers: Sequence[str], rows: list[tuple[str, ...]]) -> None:
    """The newest of them, when there are many."""
    if not rows:
        return
    print_line()
    print_table(headers, rows[-LINES_MAX:])
    if len(rows) > LINES_MAX:
        print_line(f"... {len(rows) - LINES_MAX} more; --json has all of them", "dim")


def _model_row(one: UsageSum) -> tuple[str, ...]:
    use = one.usage
    counts: tuple[Any, ...] = (one.calls, use.input, use.cached_input, use.output)
    name = visible(one.by["model"] or "?")
    return (name, *map(str, counts), money(one.costs, one.unpriced))


def _artifact_row(one: Artifact) -> tuple[str, ...]:
    return (
        visible(one.name),
        str(one.version),
        size(one.size_bytes),
        visible(one.media_type or ""),
        visible(one.tool or ""),
        moment(one.created_us),
    )


def _execution_row(one: Execution) -> tuple[str, ...]:
    return (
        visible(one.call_id),
        visible(one.tool),
        one.status,
        str(one.attempts),
        f"{one.duration_ms} ms" if one.resolved else "",
        moment(one.started_us),
    )


def _draft_row(one: DraftRecord) -> tuple[str, ...]:
    return (visible(one.id), visible(one.owner), str(len(one.text)), moment(one.updated_us))


def _attachment_row(one: Attachment) -> tuple[str, ...]:
    used = one.committed_us is not None
    uri = one.uri if one.uri != f"blob:{one.id}" else "blob"
    return (
        visible(one.id),
        visible(uri),
        "used" if used else "intent",
        moment(one.committed_us if used else one.intent_us),
    )
