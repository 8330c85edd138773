"""A ConversationStore of Pydantic AI: conversations are sessions, entries are their messages.

    conversations = LedgerConversationStore(store)      # instead of InMemoryConversationStore()
    conversation = await conversations.load("trip") or Conversation(conversation_id="trip")
    result = await agent.run("Book Oslo", conversation=conversation)
    await conversations.save(result)

The base class decides what is new and where histories part. A save, a branch or a fork is one
commit here. A fork has copies of the messages it begins with, so that deleting a conversation
erases all of it, whoever was forked from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar

from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from ledgerstone import ids
from ledgerstone.adapters.pydantic_ai import conversation_entries as entries
from ledgerstone.adapters.pydantic_ai.conversation_records import look, records
from ledgerstone.adapters.pydantic_ai.conversation_writing import Writing
from ledgerstone.adapters.sync_async import AnyStore, StoreRunner, of, runs_async
from ledgerstone.errors import LedgerstoneError, RevisionMoved

TRIES = 10

_READ: ContextVar[tuple[object, str | None]] = ContextVar("_READ", default=(None, None))
"""Which conversation a task read last, and from which store: entries are looked for there first."""


class LedgerConversationStore(ConversationStore):
    """Conversations as sessions of an open store, sync or async, open to every other adapter.

    `scope` is the session's user. `delete` erases the conversation with all its messages; forks
    of it have their own.
    """

    def __init__(self, store: AnyStore) -> None:
        self._runner = StoreRunner(store)
        if store.tenant is None:
            raise LedgerstoneError("a store of one tenant is needed: store.for_tenant(...)")
        self._store = store

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record, also of a session that another framework began."""
        current = await self._runner.run_async(look(self._store, conversation_id))
        _READ.set((self, conversation_id))
        return current.record

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Records of sessions that pydantic-ai began, newest first."""
        if scope is not None:
            ids.check_id(scope, "scope")
        if limit is not None and limit < 1:
            return []
        return await self._runner.run_async(records(self._store, scope, limit))

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Record and entries in one commit; InvalidValue for what cannot be stored."""
        writing = Writing(self._store, record, new_entries, self._home())
        await self._write(writing, expected_revision)

    @runs_async
    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete it for good, with its entries; a fork keeps its own copies of them."""
        for _ in range(TRIES):
            current = await look(self._store, conversation_id)
            if current.session is None or _revision(current.record) != expected_revision:
                break
            try:
                gone = await of(
                    self._store.sessions.purge(
                        conversation_id,
                        expected_revision=current.commits,
                        expected_incarnation=current.session.incarnation,
                    )
                )
            except RevisionMoved:
                continue
            if gone.existed:
                return
        raise ConversationConflict(conversation_id)

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """The entries up to `head_id` in one reading; LookupError when it is nowhere."""
        if head_id is None or (limit is not None and limit < 1):
            return []
        work = entries.read(self._store, head_id, limit, self._home())
        found = await self._runner.run_async(work)
        if found is None:
            raise LookupError(f"no entry {head_id!r}")
        return found

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """One entry; LookupError when it is nowhere, or says nothing any more."""
        found = await self.read_history(entry_id, limit=1)
        if not found or found[0].id != entry_id:
            raise LookupError(f"no entry {entry_id!r}")
        return found[0]

    @runs_async
    async def _write(self, writing: Writing, expected: str | None) -> None:
        for _ in range(TRIES):
            current = await look(self._store, writing.id)
            if current.hidden or _revision(current.record) != expected:
                break
            try:
                return await writing.commit(current)
            except RevisionMoved:
                continue
        raise ConversationConflict(writing.id)

    def _home(self) -> str | None:
        """The session of the record that this task read last."""
        reader, session = _READ.get()
        return session if reader is self else None


def _revision(record: ConversationRecord | None) -> str | None:
    return None if record is None else record.revision
