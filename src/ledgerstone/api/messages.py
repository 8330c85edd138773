"""store.messages: the conversation as a list, on the graph below it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET, UnsetType

from ledgerstone import ids
from ledgerstone.api.commits import commit
from ledgerstone.api.message_reads import AsyncMessageReads, MessageList
from ledgerstone.api.replacements import ListReplacement, replace_list
from ledgerstone.commands.context import FindCompaction
from ledgerstone.commands.turns import Amendment, CommitTurn, Rewind
from ledgerstone.errors import MessageNotFound
from ledgerstone.intake import bodies, checks
from ledgerstone.intake.blobs import all_named, blobs_of_patch
from ledgerstone.intake.checks import IdRef, SessionRef
from ledgerstone.intake.compaction import INSTRUCTION, compaction_pair
from ledgerstone.intake.sessions import ensuring, new_session
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Session
from ledgerstone.records.turns import Base, Replaced, TurnCommitted


class AsyncMessages(AsyncMessageReads):
    """What was said."""

    async def append(
        self,
        session: SessionRef,
        *messages: object,
        create: bool | Session = False,
        branch: str = "main",
        run_id: IdRef | None = None,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> MessageList:
        """Add messages at the end in one commit; messages with ids may be appended again.

        A message object has its id: the same one again, even after a pop, adds nothing. Make a new
        one to say it again.
        Errors: SessionNotFound (unless `create`), SessionDeleted, BranchNotFound, AlreadyExists,
        LeaseHeld, LeaseExpired, Fenced, RevisionMoved, InvalidValue.
        """
        target, owned = checks.bound(session, lease)
        tenant = self._tenant
        made = new_session(tenant, target, create)
        if not messages:
            if made is not None:
                await self._write(ensuring(made))
            return []
        given = bodies.to_messages(messages)
        turn, nodes = bodies.message_nodes(given, checks.maybe_id(run_id, "run_id"))
        command = CommitTurn(
            tenant=tenant,
            session=target,
            turn=turn,
            kind="append",
            guard=checks.guard(owned, expected_revision),
            create=made,
            parent_rule="exists",
            branch=checks.branch_name(branch),
            nodes=tuple(nodes),
            blobs=all_named(one.body for one in given),
        )
        answer = await commit(self._handle, command, owned)
        pairs = zip(nodes, answer.placed, strict=True)
        return bodies.placed_messages(target, given, pairs)

    async def replace(
        self,
        session: SessionRef,
        messages: Iterable[object],
        *,
        after: IdRef | None = None,
        base: Base | None = None,
        branch: str = "main",
        expected_leaf: IdRef | UnsetType | None = UNSET,
        create: bool | Session = False,
        run_id: IdRef | None = None,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> Replaced:
        """Make the list (or what follows `after`) exactly these messages, in one commit.

        What stands there already is kept, the rest superseded. With `base`, from the replace
        before, the cost follows the new messages. A kept id stays; a message that has to be
        written again although its id is taken by the superseded one gets a new id.
        Errors: as append, and LeafMoved when `expected_leaf` does not hold.
        """
        target, owned = checks.bound(session, lease)
        plan = ListReplacement(
            kind="replace",
            session=target,
            branch=checks.branch_name(branch),
            lease=owned,
            expected_revision=expected_revision,
            expected_leaf=checks.leaf_or_unset(expected_leaf, "expected_leaf"),
            create=new_session(self._tenant, target, create),
            run_id=checks.maybe_id(run_id, "run_id"),
        )
        start = checks.maybe_id(after, "after")
        return await replace_list(self._handle, plan, messages, base=base, after=start)

    async def pop(
        self,
        session: SessionRef,
        n: int = 1,
        *,
        branch: str = "main",
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> MessageList:
        """Take the newest n messages off the path; they stay readable by id. Oldest first."""
        rewind = Rewind(pop=checks.positive(n, "n"))
        target, owned = checks.bound(session, lease)
        name = checks.branch_name(branch)
        answer = await self._commit(
            "pop", target, owned, expected_revision, branch=name, rewind=rewind
        )
        if not answer.affected:
            return []
        newest = answer.affected[-1]
        return await self._path(answer.session, branch, newest, last=len(answer.affected))

    async def clear(
        self,
        session: SessionRef,
        *,
        branch: str = "main",
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> int:
        """Supersede the whole path; answers how many messages left it. SessionNotFound."""
        rewind = Rewind(to=None, supersede=True)
        target, owned = checks.bound(session, lease)
        name = checks.branch_name(branch)
        answer = await self._commit(
            "clear", target, owned, expected_revision, branch=name, rewind=rewind
        )
        return answer.superseded

    async def amend(
        self,
        id: IdRef,
        *,
        session: SessionRef | None = None,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
        **fields: Any,
    ) -> Message:
        """Change visible fields (usage, metadata, is_summary, parts, ...) as a new version.

        The original stays in `versions`. Errors: MessageNotFound, and the guard's.
        """
        name = checks.record_id(id, "id")
        target, owned = self._bound(id, session, lease)
        change = Amendment(name, bodies.amendment_patch(fields), bodies.salt())
        blobs = tuple(dict.fromkeys(blobs_of_patch(fields)))
        await self._commit(
            "amend", target, owned, expected_revision, amendments=(change,), blobs=blobs
        )
        found = await self.get(name, session=target)
        if found is None:
            raise MessageNotFound(name)
        return found

    async def delete(
        self,
        id: IdRef,
        *,
        session: SessionRef | None = None,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> bool:
        """Hide a message; False when it is unknown or hidden already."""
        name = checks.record_id(id, "id")
        target, owned = self._bound(id, session, lease)
        found = await self.get(name, session=target)
        if found is None or found.deleted_us is not None:
            return False
        answer = await self._commit(
            "tombstone", target, owned, expected_revision, tombstones=(name,)
        )
        return bool(answer.affected)

    async def compact(
        self,
        session: SessionRef,
        summary: str,
        *,
        tail_start: IdRef | None,
        branch: str = "main",
        instruction: str = INSTRUCTION,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
        **fields: Any,
    ) -> tuple[Message, Message]:
        """Add a compaction request and its summary in one commit; nothing is removed.

        The summary stands for what was said before `tail_start`, or for everything when that is
        None. The request remembers it, and the compaction before it on the branch. `fields` are
        the summary's (model, usage, ...). Errors: MessageNotFound unless `tail_start` is a
        message of the branch, and as append.
        """
        target, owned = checks.bound(session, lease)
        name, start = checks.branch_name(branch), checks.maybe_id(tail_start, "tail_start")
        point = await self._ask(
            FindCompaction(tenant=self._tenant, session=target, branch=name, tail_start=start)
        )
        before = None if point is None else point.newest
        pair = compaction_pair(summary, start, before, instruction, fields)
        if start is not None and point is not None and not point.on_path:
            raise MessageNotFound(start)
        made = await self.append(
            target, *pair, branch=name, lease=owned, expected_revision=expected_revision
        )
        return made[0], made[1]

    def _bound(
        self, id: IdRef, session: SessionRef | None, lease: AnyLease | None
    ) -> tuple[str, AnyLease | None]:
        if session is None and lease is not None:
            session = lease
        return checks.bound(checks.session_of(id, None) if session is None else session, lease)

    async def _commit(
        self,
        kind: str,
        session: str,
        lease: AnyLease | None,
        expected_revision: int | None,
        **changes: Any,
    ) -> TurnCommitted:
        command = CommitTurn(
            tenant=self._tenant,
            session=session,
            turn=ids.new_id(),
            kind=kind,
            guard=checks.guard(lease, expected_revision),
            **changes,
        )
        return await commit(self._handle, command, lease)
