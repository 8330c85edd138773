"""Summaries of conversations, as the harness lists them, in the state of a session."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_ai_harness.step_persistence.conversations import (
    ConversationSummary,
    conversation_text,
)

from ledgerstone.adapters.pydantic_ai import chains
from ledgerstone.adapters.pydantic_ai.heads import (
    BranchState,
    Heads,
    ReadRevision,
    fresh_copy,
)
from ledgerstone.adapters.pydantic_ai.sessions import pages, read_page
from ledgerstone.errors import InvalidValue

INCARNATION_BITS = 32
_ADAPTER = TypeAdapter(ConversationSummary)
_NAMED = (
    "title",
    "subtitle",
    "tags",
    "title_source",
    "naming_version",
    "named_revision",
    "naming_tokens",
)


def revision(current: BranchState) -> int:
    """The revision as the harness counts: a number, another one after delete and create."""
    return (current.incarnation - 1 << INCARNATION_BITS) + current.number


def seen(summary: ConversationSummary) -> ReadRevision | None:
    """What the writer of a summary has read; None for a new one."""
    incarnation, number = divmod(summary.revision, 1 << INCARNATION_BITS)
    return ReadRevision(incarnation + 1, number) if summary.revision else None


def dump(summary: ConversationSummary) -> dict[str, Any]:
    """A summary as JSON; InvalidValue for what could not be read, and would hide every list."""
    found: dict[str, Any] = _ADAPTER.dump_python(summary, mode="json")
    try:
        _ADAPTER.validate_python(found)
    except ValidationError as error:
        spot, reason = chains.first_fault(error)
        raise InvalidValue(".".join(("summary", *spot)), reason) from None
    return found


def saved(summary: ConversationSummary, prior: dict[str, Any] | None) -> dict[str, Any]:
    """What a save keeps: names are given beside it, and new content ends the archive."""
    said = dump(summary)
    if prior is None:
        return said
    return {**said, **{name: prior[name] for name in _NAMED}, "archived_at": None}


def of_state(current: BranchState) -> ConversationSummary:
    """The summary that was saved, or what can be said of a session of another origin."""
    assert current.session is not None
    session = current.session
    said = current.saved.get("summary")
    if said is not None:
        known = _ADAPTER.validate_python(said)
        # A fork has the summary of another one.
        return replace(known, id=session.id, revision=revision(current))
    return ConversationSummary(
        id=session.id,
        workspace=session.cwd or "",
        updated_at=session.updated_at,
        revision=revision(current),
        title=session.title or "New session",
        model=session.model,
    )


@dataclass(frozen=True)
class Naming:
    """A name for one revision of a conversation."""

    source: ConversationSummary
    title: str
    subtitle: str
    tags: tuple[str, ...]
    manual: bool
    tokens: int

    def apply(self, current: ConversationSummary) -> tuple[ConversationSummary | None, bool]:
        """The summary to write, if any, and whether it has the name."""
        spent = replace(current, naming_tokens=current.naming_tokens + self.tokens)
        refused = (spent if self.tokens else None), False
        seen = (self.source.revision, self.source.naming_version)
        if seen != (current.revision, current.naming_version):
            return refused
        if current.title_source == "user" and not self.manual:
            return refused
        named = replace(
            spent,
            title=self.title,
            subtitle=self.subtitle,
            tags=self.tags,
            title_source="user" if self.manual else "generated",
            naming_version=current.naming_version + 1,
            named_revision=current.revision,
        )
        return named, True


async def listed(
    heads: Heads, query: str, limit: int, offset: int, archived: bool | None
) -> list[ConversationSummary]:
    """Summaries that fit, the latest activity first."""
    found: list[ConversationSummary] = []
    async for page in pages(heads.store, heads.scope, first=limit + offset + 1):
        for one in await read_page(heads.store, page):
            current = BranchState(one.session, one.head, one.state)
            current = fresh_copy(current, {}) if current.is_copy else current
            if _is_listed(current, archived) and await _says(heads, current, query):
                found.append(of_state(current))
        # Activity is never later than the last change, which is what the pages go by.
        last = page[-1].updated_at
        if sum(one.updated_at > last for one in found) >= limit + offset:
            break
    found.sort(key=lambda one: (-one.updated_at.timestamp(), one.id))
    return found[offset : offset + limit]


def _is_listed(current: BranchState, archived: bool | None) -> bool:
    said = current.saved.get("summary")
    return said is not None and archived in (None, said["archived_at"] is not None)


async def _says(heads: Heads, current: BranchState, query: str) -> bool:
    """Whether a conversation, its name or its tags contain the words."""
    if not query:
        return True
    assert current.session is not None
    full = await heads.look(current.session.id, messages=True)
    messages, _ = await chains.show(heads.store, full.path)
    summary = of_state(current)
    named = (summary.title, summary.subtitle, *summary.tags, summary.workspace)
    return query.casefold() in (conversation_text(messages) + "\n".join(named)).casefold()
