"""Conversations in a ledger: what SqliteConversationStore of the harness does, and more of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from pydantic_ai.conversation import Conversation, ConversationTypeAdapter
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai_harness.step_persistence.conversations import (
    ConversationConflict,
    ConversationSummary,
    SavedConversation,
    ensure_inactive,
)

from ledgerstone import ids
from ledgerstone.adapters.pydantic_ai import chains, summaries
from ledgerstone.adapters.pydantic_ai.heads import (
    BranchState,
    Heads,
    ReadRevision,
    StoredConversation,
    conflict_text,
)
from ledgerstone.adapters.pydantic_ai.sessions import APP, PAGE_MAX, pages
from ledgerstone.adapters.sync_async import AnyStore, StoreRunner, of, runs_async
from ledgerstone.clock import SystemClock, to_datetime
from ledgerstone.errors import InvalidValue, LedgerstoneError, NotFound, RevisionMoved
from ledgerstone.records.sessions import Session


class LedgerSavedConversations:
    """Conversations as sessions of a store, open to every other adapter.

    The methods of SqliteConversationStore (save, get, listing, name, set_archived, delete) do what
    they do there; read, write, fork, branch and remove are for `pydantic_ai.Conversation`s. With a
    `scope`, only conversations of that user are there, and new ones are theirs.
    """

    def __init__(self, store: AnyStore, *, scope: str | None = None) -> None:
        self._runner = StoreRunner(store)
        self._store = store
        self._heads = Heads(store, None if scope is None else ids.check_id(scope, "scope"))

    # --- whole conversations -----------------------------------------------------------------

    @runs_async
    async def read(
        self, conversation_id: str, *, branch: str = "main"
    ) -> StoredConversation | None:
        """A conversation with its revision, or None without it or its branch.

        It may have been begun by whatever framework.
        """
        return await self._read(conversation_id, branch)

    @runs_async
    async def write(
        self, conversation: Conversation, *, expected_revision: str | None, branch: str = "main"
    ) -> StoredConversation:
        """Messages, usage and deferred requests in one commit; None makes a new conversation.

        ConversationConflict when another writer was here since, InvalidValue for what cannot be
        stored, with its current. The steps of runs that a LedgerStepStore kept are no other writer.
        """
        if not isinstance(conversation, Conversation):
            raise InvalidValue(
                "conversation", f"a Conversation expected, got {type(conversation).__name__}"
            )
        id = conversation.conversation_id
        natives = chains.dump(conversation.messages)
        rest = replace(conversation, messages=[])
        try:
            said = ConversationTypeAdapter.dump_python(rest, mode="json", exclude={"messages"})
            # What cannot be read would hide the conversation for good.
            ConversationTypeAdapter.validate_python(said)
        except ValidationError as error:
            spot, reason = chains.first_fault(error)
            raise InvalidValue(".".join(("conversation", *spot)), reason) from None
        except ValueError as error:
            raise InvalidValue("conversation", str(error)) from None

        def change(current: BranchState) -> dict[str, Any]:
            mine = dict(current.saved)
            mine["heads"] = dict(mine.get("heads", {}))
            mine["heads"][branch] = {
                **current.known,
                "usage": said["usage"],
                "deferred": said["deferred_tool_requests"],
            }
            return mine

        current = await self._heads.write(
            id, natives, change, seen=_seen(expected_revision), branch=branch, made=self._made(id)
        )
        return StoredConversation(
            conversation=conversation,
            revision=current.revision,
            head=current.known["leaf"],
            branch=branch,
        )

    @runs_async
    async def fork(
        self, conversation_id: str, *, at: str | None = None, new_id: str | None = None
    ) -> StoredConversation:
        """A new conversation with the history up to a head, here or on any branch of that one.

        ConversationConflict when that conversation or head is not there any more.
        """
        if new_id is not None:
            ids.check_id(new_id, "new_id")
        session, _ = await self._existing(conversation_id)
        fork = self._store.sessions.fork
        try:
            made = await of(fork(conversation_id, at=at, new_id=new_id, user=session.user))
        except (NotFound, InvalidValue) as error:
            raise ConversationConflict(f"Nothing to fork at {at!r}: {error}") from error
        # Without this commit a reader still finds the same: what a copy knows is made anew.
        await self._heads.patch(made.id, lambda copy: copy.saved)
        return await self._read_made(made.id, "main")

    @runs_async
    async def branch(
        self, conversation_id: str, name: str, *, at: str | None = None
    ) -> StoredConversation:
        """Another way to go on from a head, in the same conversation."""
        _, current = await self._existing(conversation_id)
        start = at or current.leaf
        if start is None:
            raise ConversationConflict(
                f"Conversation {conversation_id!r} is empty: nothing to branch from."
            )
        try:
            await of(self._store.branches.create(conversation_id, name, at=start))
        except (NotFound, InvalidValue) as error:
            raise ConversationConflict(f"Nothing to branch from at {at!r}: {error}") from error
        return await self._read_made(conversation_id, name)

    @runs_async
    async def records(self, *, limit: int | None = None) -> list[Session]:
        """The conversations in scope, those written last first."""
        if limit is not None and limit < 1:
            raise InvalidValue("limit", f"a number from 1 or None expected, got {limit!r}")
        found: list[Session] = []
        async for page in pages(self._store, self._heads.scope, first=limit or PAGE_MAX):
            found += page
            if limit is not None and len(found) >= limit:
                break
        return found[:limit]

    @runs_async
    async def remove(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete it for good; ConversationConflict when it is not as it was read."""
        current = await self._heads.look(conversation_id)
        await self._purge(conversation_id, current, seen=current.revision == expected_revision)

    # --- as SqliteConversationStore ----------------------------------------------------------

    @runs_async
    async def save(
        self, *, summary: ConversationSummary, messages: Sequence[ModelMessage]
    ) -> ConversationSummary:
        """Commit content only if its expected revision is still current."""
        natives = chains.dump(messages)
        updated = replace(
            summary,
            updated_at=_now(),
            message_count=len(messages),
            total_tokens=sum(
                m.usage.total_tokens for m in messages if isinstance(m, ModelResponse)
            ),
        )

        def change(current: BranchState) -> dict[str, Any]:
            mine = dict(current.saved)
            mine["summary"] = summaries.saved(updated, mine.get("summary"))
            return mine

        made = self._made(summary.id, cwd=summary.workspace or None)
        seen = summaries.seen(summary)
        current = await self._heads.write(summary.id, natives, change, seen=seen, made=made)
        return summaries.of_state(current)

    @runs_async
    async def get(self, *, conversation_id: str) -> SavedConversation:
        """One conversation; LookupError when there is none."""
        current = await self._heads.look(conversation_id, messages=True)
        if current.session is None:
            raise LookupError(f"No saved session: {conversation_id}")
        messages = await self._heads.show(current)
        found = summaries.of_state(current)
        if "summary" not in current.saved:
            found = replace(found, message_count=len(messages))
        return SavedConversation(summary=found, messages=messages)

    @runs_async
    async def listing(
        self, *, query: str = "", limit: int = 200, offset: int = 0, archived: bool | None = None
    ) -> list[ConversationSummary]:
        """Summaries, the latest activity first; `query` looks in names, tags and text."""
        if limit < 1 or offset < 0:
            raise ValueError("limit must be positive and offset nonnegative")
        return await summaries.listed(self._heads, query, limit, offset, archived)

    @runs_async
    async def name(
        self,
        *,
        source: ConversationSummary,
        title: str,
        subtitle: str = "",
        tags: tuple[str, ...] = (),
        manual: bool = False,
        tokens: int = 0,
    ) -> bool:
        """Name the revision that was read; False when it moved or has a name of its user's."""
        naming = summaries.Naming(source, title, subtitle, tags, manual, tokens)
        done = False

        def change(current: BranchState) -> dict[str, Any]:
            nonlocal done
            done = False
            mine = dict(current.saved)
            if "summary" not in mine:
                return {}
            named, done = naming.apply(summaries.of_state(current))
            if named is None:
                return {}
            mine["summary"] = summaries.dump(named)
            return mine

        return await self._heads.patch(naming.source.id, change) is not None and done

    @runs_async
    async def set_archived(self, *, conversation_id: str, archived: bool) -> ConversationSummary:
        """Archive or bring back; LookupError when there is none."""

        def change(current: BranchState) -> dict[str, Any]:
            mine = dict(current.saved)
            summary = summaries.of_state(current)
            if "summary" not in mine or archived == (summary.archived_at is not None):
                return {}
            at = _now() if archived else None
            mine["summary"] = summaries.dump(replace(summary, archived_at=at))
            return mine

        current = await self._heads.patch(conversation_id, change)
        if current is None or "summary" not in current.saved:
            raise LookupError(f"No saved session: {conversation_id}")
        return summaries.of_state(current)

    @runs_async
    async def delete(self, *, source: ConversationSummary) -> None:
        """Delete the revision that was read; ConversationConflict when it moved or is running."""
        ensure_inactive(source)
        current = await self._heads.look(source.id)
        await self._purge(source.id, current, seen=summaries.revision(current) == source.revision)

    async def _read(self, id: str, branch: str) -> StoredConversation | None:
        current = await self._heads.look(id, branch, messages=True)
        if current.session is None or (branch != "main" and current.leaf is None):
            return None
        messages = await self._heads.show(current)
        known = current.known or current.inherited
        conversation: Conversation = ConversationTypeAdapter.validate_python(
            {
                "messages": [],
                "usage": known.get("usage") or {},
                "conversation_id": id,
                "deferred_tool_requests": known.get("deferred"),
            }
        )
        conversation.messages = messages
        return StoredConversation(
            conversation=conversation, revision=current.revision, head=current.leaf, branch=branch
        )

    async def _read_made(self, id: str, branch: str) -> StoredConversation:
        found = await self._read(id, branch)
        if found is None:
            raise ConversationConflict(f"Conversation {id!r} was deleted.")
        return found

    async def _existing(self, id: str) -> tuple[Session, BranchState]:
        current = await self._heads.look(id)
        if current.session is None:
            raise ConversationConflict(conflict_text(id, current))
        return current.session, current

    async def _purge(self, id: str, current: BranchState, *, seen: bool) -> None:
        if current.session is None or not seen:
            raise ConversationConflict(conflict_text(id, current))
        try:
            gone = await of(
                self._store.sessions.purge(
                    id, expected_revision=current.commits, expected_incarnation=current.incarnation
                )
            )
        except RevisionMoved:
            raise ConversationConflict(conflict_text(id, current)) from None
        if not gone.existed:
            raise ConversationConflict(f"Conversation {id!r} was deleted.")

    def _made(self, id: str, cwd: str | None = None) -> Session:
        tenant = self._store.tenant
        if tenant is None:
            raise LedgerstoneError("a store of one tenant is needed: store.for_tenant(...)")
        return Session(id=id, tenant=tenant, app=APP, user=self._heads.scope, cwd=cwd)


def _now() -> datetime:
    return to_datetime(SystemClock().now_us())


def _seen(revision: str | None) -> ReadRevision | None:
    """A revision as `read` gave it; one that was never given fits nothing."""
    if revision is None:
        return None
    incarnation, _, number = revision.partition(".")
    digits = incarnation.isdecimal() and number.isdecimal()
    return ReadRevision(int(incarnation), int(number)) if digits else ReadRevision(0, 0)
