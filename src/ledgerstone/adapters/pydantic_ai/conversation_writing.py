"""The one commit that a record and its new entries are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
)

from ledgerstone import ids
from ledgerstone.adapters.pydantic_ai import chains
from ledgerstone.adapters.pydantic_ai import conversation_entries as entries
from ledgerstone.adapters.pydantic_ai.conversation_records import (
    RecordState,
    check_entry,
    entry_id,
    node_of,
    stored,
)
from ledgerstone.adapters.pydantic_ai.sessions import APP, STEPS
from ledgerstone.adapters.sync_async import AnyStore, of
from ledgerstone.api.turn import AsyncTurn
from ledgerstone.api_sync.turn import Turn
from ledgerstone.errors import BlobNotFound, InvalidValue, SessionDeleted, SessionNotFound
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Session

HEAD = "pydantic-ai.head"
"""A node on main that says nothing, and follows the entry where a history goes on."""


class Writing:
    """One write; `home` is the session where the beginning of a fork is looked for first."""

    def __init__(
        self,
        store: AnyStore,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
        home: str | None,
    ) -> None:
        self.id = ids.check_id(record.conversation_id, "conversation_id")
        if record.scope is not None:
            ids.check_id(record.scope, "scope")
        for entry in new_entries:
            check_entry(entry.id)
        self._store = store
        self._record = record
        self._entries = list(new_entries)
        self._ids = [entry.id for entry in new_entries]
        self._natives = chains.dump([entry.message for entry in new_entries])
        self._home = home
        self._kept: list[Message] | None = None

    async def commit(self, current: RecordState) -> None:
        """Write it to the conversation that it was found to fit.

        RevisionMoved when there is another one by now, ConversationConflict for an entry that is
        not there.
        """
        if current.session is not None and self._record.scope not in (None, current.session.user):
            raise ConversationConflict(self.id)
        turn = self._begin(current)
        turn.warns = False
        try:
            record, leaf = await self._collect(turn, current)
            turn.state(**stored(record, leaf), **({STEPS: None} if STEPS in current.state else {}))
            await of(turn.commit())
        except (SessionDeleted, SessionNotFound, BlobNotFound) as error:
            raise ConversationConflict(self.id) from error
        except InvalidValue as error:
            if error.field != "parent":
                raise
            raise ConversationConflict(self.id) from error

    def _begin(self, current: RecordState) -> Turn | AsyncTurn:
        session = current.session
        made = Session(
            id=self.id, tenant=self._store.tenant or "", app=APP, user=self._record.scope
        )
        return self._store.turns.begin(
            self.id,
            expected_revision=current.commits,
            expected_incarnation=0 if session is None else session.incarnation,
            create=made if session is None else False,
        )

    async def _collect(
        self, turn: Turn | AsyncTurn, current: RecordState
    ) -> tuple[ConversationRecord, str | None]:
        """Put everything into a turn; answers the record, and where main ends then."""
        record, leaf, at, parted = self._record, current.leaf, current.tail, current.is_end_deleted
        base = self._entries[0].parent_id if self._entries else record.head_id
        if current.record is None and base is not None:
            if at is not None:
                await self._go(turn, None)
            path = await self._copied(base)
            turn.add(*path)
            at, leaf = base, path[-1].id
            if record.head_id == base:
                # Entries of other frameworks are called after their session.
                at = entry_id(structs.replace(path[-1], session=self.id))
                forked = at if record.forked_at == base else record.forked_at
                record = replace(record, head_id=at, forked_at=forked)
        if self._kept is None:
            self._kept = await chains.keep(self._store, self._natives, self._ids)
        for entry, message in zip(self._entries, self._kept, strict=True):
            if entry.parent_id != at:
                await self._go(turn, entry.parent_id)
                parted = True
            turn.add(message)
            at = leaf = entry.id
        if record.head_id != at:
            leaf = await self._go(turn, record.head_id)
        told = await self._told(current) if parted and self._ids else frozenset()
        chains.count(
            turn,
            [
                message
                for message, native in zip(self._kept, self._natives, strict=True)
                if chains.digest(native) not in told
            ],
        )
        return record, leaf

    async def _go(self, turn: Turn | AsyncTurn, entry: str | None) -> str:
        """Move main to an entry of this conversation; ConversationConflict when it is not there."""
        node = None
        if entry is not None and entry in self._ids:
            node = entry
        elif entry is not None:
            session, node = node_of(entry)
            found = None
            if session in (None, self.id):
                found = await of(self._store.messages.get(node, session=self.id))
            if found is None or found.deleted_us is not None:
                raise ConversationConflict(self.id)
        return turn.node(HEAD, {}, parent=node).id

    async def _copied(self, entry: str) -> list[Message]:
        """What a fork begins with; ConversationConflict when it is not there any more."""
        path = await entries.path_to(self._store, entry, self._home)
        if not path or path[-1].id != node_of(entry)[1]:
            raise ConversationConflict(self.id)
        return entries.copies(path)

    async def _told(self, current: RecordState) -> frozenset[bytes]:
        """What stands on main: told again on another way, it was still paid for once.

        ConversationConflict when what is to be written was deleted or amended since.
        """
        if current.session is None or self._kept is None:
            return frozenset()
        path = await of(self._store.messages.history(self.id, deleted=True))
        chain = await chains.current_chain(self._store, path)
        if chain.gone and not chain.gone.isdisjoint(map(chains.digest, self._natives)):
            raise ConversationConflict(self.id)
        return frozenset(link.digest for link in chain.links)
