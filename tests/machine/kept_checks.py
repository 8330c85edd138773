"""What holds between bytes, usage and memory, whatever was done: asked of one backend."""

from __future__ import annotations

from typing import Any

from ledgerstone.commands import Query
from ledgerstone.commands.artifacts import ListArtifacts
from ledgerstone.commands.blobs import (
    CountBlobs,
    GetBlob,
    ListAttachments,
    ListBlobs,
    ListUnreferenced,
    ListUploads,
)
from ledgerstone.commands.embeddings import ListEmbeddings, ListSpaces, ReadVectors
from ledgerstone.commands.evidence import LoadEvidence
from ledgerstone.commands.executions import ListExecutions
from ledgerstone.commands.memories import ListNamespaces, SearchMemories
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.commands.sessions import GetHead
from ledgerstone.commands.usage import GetStats, ListBudgets, ListUsage, SummariseUsage
from ledgerstone.ports.backend import Backend
from ledgerstone.records.parts import Media
from ledgerstone.records.stats import BudgetState, UsageSum
from ledgerstone.records.usage import Usage
from tests.machine import draws, kept_draws, memory_draws

OWNERS = tuple(dict.fromkeys(kept_draws.OWNERS))


def everything(tenant: str) -> list[Query[Any]]:
    """Every list there is, whole."""
    common: dict[str, Any] = {"tenant": tenant}
    found: list[Query[Any]] = [
        CountBlobs(**common),
        ListBlobs(**common),
        ListUploads(before_us=kept_draws.LATER_US, **common),
        ListUnreferenced(before_us=kept_draws.LATER_US, **common),
        SearchMemories(**common),
        SearchMemories(namespace=memory_draws.joined("a"), **common),
        ListNamespaces(**common),
        ListNamespaces(prefix=memory_draws.joined("a"), **common),
        ListEmbeddings(**common),
        ListSpaces(**common),
        ReadVectors(model="", **common),
        ReadVectors(model="m", **common),
        ListBudgets(**common),
        SummariseUsage(by=("session", "day", "run", "model"), **common),
    ]
    found += [ListArtifacts(owner=owner, **common) for owner in OWNERS]
    found += [GetBlob(ref=ref, **common) for ref in kept_draws.REFS]
    for session in draws.SESSIONS:
        found += [GetStats(session=session, **common), ListUsage(session=session, **common)]
        found += [ListAttachments(session=session, **common)]
        found += [LoadEvidence(session=session, kind="trace", **common)]
        found += [LoadEvidence(session=session, kind="report", **common)]
    return found


def check(backend: Backend, tenant: str) -> None:
    """AssertionError with what does not fit."""
    bytes_are_there(backend, tenant)
    for session in draws.SESSIONS:
        stats_fit(backend, tenant, session)
    states: list[BudgetState] = backend.read([ListBudgets(tenant=tenant)])[0]
    for state in states:
        budget_fits(backend, tenant, state)


def bytes_are_there(backend: Backend, tenant: str) -> None:
    """What an artifact names, and what a message shows, has not been collected."""
    lists = backend.read([ListArtifacts(tenant=tenant, owner=owner) for owner in OWNERS])
    named = {one.artifact.ref for found in lists for one in found}
    queries = [ReadMessages(tenant=tenant, session=id, deleted=True) for id in draws.SESSIONS]
    shown = {
        part.blob
        for found in backend.read(queries)
        for message in found
        for part in message.body.parts
        if isinstance(part, Media) and part.blob is not None
    }
    wanted = sorted(named | shown)
    blobs = backend.read([GetBlob(tenant=tenant, ref=ref) for ref in wanted])
    lost = [ref for ref, blob in zip(wanted, blobs, strict=True) if blob is None]
    assert not lost, f"bytes that are needed are gone: {lost}"


def stats_fit(backend: Backend, tenant: str, session: str) -> None:
    """The sums that are kept say what the lists say."""
    place: dict[str, Any] = {"tenant": tenant, "session": session}
    stats, head, messages, calls, uses, sums = backend.read(
        [
            GetStats(**place),
            GetHead(tenant=tenant, id=session),
            ReadMessages(**place),
            ListExecutions(**place),
            ListUsage(**place),
            SummariseUsage(by=("session",), **place),
        ]
    )
    assert stats.turns == (0 if head is None else head.revision)
    assert stats.messages == len(messages), (stats, messages)
    assert stats.user_messages == sum(one.role == "user" for one in messages)
    assert stats.tool_calls == len(calls), (stats, calls)
    assert stats.tool_calls_succeeded == sum(one.status == "succeeded" for one in calls)
    assert stats.tool_calls_failed == sum(one.status == "failed" for one in calls)
    assert stats.calls == len(uses), (stats, uses)
    assert stats.unpriced == sum(one.entry.cost is None for one in uses)
    used = sum((one.entry.usage for one in uses), Usage())
    assert stats.usage.total_tokens == used.total_tokens
    assert {cost.currency: cost.nano for cost in stats.costs} == _costs(uses)
    assert [one.calls for one in sums] == ([len(uses)] if uses else [])


def _costs(uses: list[Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in uses:
        if one.entry.cost is not None:
            cost = one.entry.cost
            found[cost.currency] = found.get(cost.currency, 0) + cost.nano
    return found


def budget_fits(backend: Backend, tenant: str, state: BudgetState) -> None:
    """What a budget says is used is what was used since its period began."""
    budget = state.budget
    of: dict[str, Any] = {} if budget.scope == "tenant" else {budget.scope: budget.subject}
    query = SummariseUsage(tenant=tenant, by=(), since_us=state.since_us or None, **of)
    sums: list[UsageSum] = backend.read([query])[0]
    tokens = sum(one.usage.total_tokens for one in sums)
    costs = [cost for one in sums for cost in one.costs if cost.currency == budget.currency]
    assert state.spent_tokens == tokens, (state, sums)
    assert state.spent_nano == sum(cost.nano for cost in costs), (state, sums)
