"""A turn: collects without I/O, then commits everything at once."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from msgspec import UNSET
from msgspec.structs import replace

from ledgerstone.api.commits import commit, join
from ledgerstone.api.draft_async import Draft
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.usage import budgets_changed, may_begin
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.errors import InvalidValue, SessionBindingMismatch
from ledgerstone.intake import bodies, checks
from ledgerstone.intake.checks import IdRef, SessionRef
from ledgerstone.intake.compaction import INSTRUCTION, compaction_pair
from ledgerstone.intake.content import Content, id_list
from ledgerstone.intake.executions import finish_of
from ledgerstone.intake.extras import Extras
from ledgerstone.intake.tickets import Question, ask
from ledgerstone.intake.usage import usage_entry
from ledgerstone.intake.work import Keywords
from ledgerstone.records.context import Context
from ledgerstone.records.drafts import DraftRecord
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.messages import Message
from ledgerstone.records.nodes import NOTE_MODES, Node
from ledgerstone.records.runs import Run
from ledgerstone.records.sessions import Session
from ledgerstone.records.tickets import Ticket
from ledgerstone.records.turns import Checkpoint, HydratedCheckpoint, TurnCommitted
from ledgerstone.records.usage import Cost, Usage, UsageEntry
from ledgerstone.records.work import Claim


class AsyncTurn(Extras):
    """One atomic commit in the making, bound to one session.

    What was added stays until a commit succeeded, so `commit()` may be repeated after any error
    or cancellation: the turn id and the content are the same, so it happens once. After a
    success the same object collects the next turn. As a context manager it commits on a clean
    exit, if there is anything to commit, and does nothing after an exception; entering it raises
    BudgetExceeded when a budget of its session is used up. What was added and never committed is a
    ResourceWarning when the turn goes, unless it was discarded.
    """

    warns = True
    """False: whoever began it tells by itself when it is not committed, as a worker does."""
    _told = False
    """Whether the caller was told of a commit that failed, or left the block by an error."""
    _first: TurnCommitted | None = None
    """What the last commit answered, while nothing was added since."""
    _given_back = False

    def __init__(
        self,
        handle: AsyncHandle,
        session: str,
        lease: AnyLease | None,
        *,
        id: str | None,
        run_id: str | None,
        branch: str,
        expected_revision: int | None,
        expected_incarnation: int | None,
        create: Session | None,
    ) -> None:
        self._handle = handle
        self._id = id
        self._content = Content(session, run_id)
        self._create = create
        self.session = session
        self.lease = lease
        self.branch = branch
        self.expected_revision = expected_revision
        self.expected_incarnation = expected_incarnation

    @property
    def id(self) -> str:
        """The idempotency key of the turn that is being collected."""
        if self._id is None:
            self._id = self._content.draw()[0]
        return self._id

    @property
    def run_id(self) -> str | None:
        return self._content.run_id

    @property
    def messages(self) -> list[Message]:
        """What was added so far, in order; ids are set, places are not."""
        return list(self._content.messages)

    def system(self, content: object = None, **fields: Any) -> Message:
        """Add a system message."""
        return self._content.say("system", content, fields)

    def user(self, content: object = None, **fields: Any) -> Message:
        """Add a user message."""
        return self._content.say("user", content, fields)

    def assistant(self, content: object = None, **fields: Any) -> Message:
        """Add an assistant message."""
        return self._content.say("assistant", content, fields)

    def tool(self, call_id: str, content: object = None, **fields: Any) -> Message:
        """Add the result of a tool call."""
        return self._content.answer(call_id, content, fields)

    def add(self, *messages: object, on_path: bool = True) -> list[Message]:
        """Add messages, or dictionaries with role and content.

        A message that names a parent follows it. `on_path=False` hangs them in the graph: each
        beside the path, after its parent or where the branch stands then.
        """
        checks.flag(on_path, "on_path")
        return [self._content.add(message, on_path) for message in messages]

    def node(
        self,
        kind: str,
        body: object = None,
        *,
        id: IdRef | None = None,
        label: str = "",
        meta: dict[str, Any] | None = None,
        values: Iterable[str] = (),
        parent: Any = UNSET,
        on_path: bool = True,
    ) -> Node:
        """Add a node of any kind but message; the body is JSON or Opaque.

        `parent` UNSET follows the node before it, None makes a root. `on_path=False` hangs it in
        the graph without moving the branch.
        """
        node = bodies.any_node(
            kind,
            body,
            id=id,
            label=label,
            run_id=self._content.run_id,
            meta=meta,
            values=values,
            parent=parent,
            on_path=on_path,
        )
        self._content.nodes.append(node)
        return Node(
            id=node.id,
            kind=kind,
            body=body,
            session=self.session,
            label=label,
            run_id=node.run_id,
            meta=meta or {},
            values=node.refs,
        )

    def value(self, data: object) -> str:
        """Keep bytes, or JSON, once per session; answers its SHA-256, which nodes may refer to."""
        return self._content.add_value(data)

    def note(
        self,
        node: IdRef,
        key: str,
        body: object = None,
        values: Iterable[str] = (),
        *,
        mode: str = "replace",
    ) -> None:
        """Write a note beside a node, which may be a new one or need not exist yet.

        Mode replace: the last body of a key wins; keep: the first one stays, in the store and
        within the turn, and a replacement in the same turn wins over it.
        """
        keeps = checks.one_of(mode, NOTE_MODES, "mode") == "keep"
        note = bodies.new_note(node, key, body, values)
        self._content.extend("kept_notes" if keeps else "notes", (note,))

    def amend(self, id: IdRef, **fields: Any) -> None:
        """Change visible fields of a message as a new version; MessageNotFound at the commit."""
        self._content.amend(id, fields)

    def tombstone(self, *ids: IdRef) -> None:
        """Hide nodes; unknown ones are ignored."""
        self._content.extend("tombstones", id_list(ids, "id"))

    def state(self, **patch: Any) -> None:
        """Merge into the session's state; a key set to None is removed."""
        self._content.merge_state(patch)

    def run(self, status: str, **fields: Any) -> Run:
        """Create or move the run of this turn; IllegalTransition at the commit."""
        return self._content.set_run(status, fields)

    def use(
        self,
        model: str,
        usage: Usage | Mapping[str, int],
        *,
        cost: Cost | None = None,
        source: str = "",
        provider: str | None = None,
        message: IdRef | None = None,
        id: str | None = None,
        correction: bool = False,
        over_budget: bool = False,
    ) -> UsageEntry:
        """Record tokens and money; without a cost, the store's price list says what it was.

        `message` is what it was used for: `usage.list(session, message=...)` finds it again.
        Reads show the sum per source and model. A correction may be negative. Beyond a budget, the
        answer of the commit names it in `over_budget`; a budget of mode refuse_commit raises
        BudgetExceeded there instead, unless `over_budget`: it was used already.
        """
        entry = usage_entry(
            self._handle.equipment,
            model,
            usage,
            cost=cost,
            source=source,
            provider=provider,
            run_id=self._content.run_id,
            correction=correction,
            id=id,
            message=message,
        )
        self._content.extend("usage", (entry,))
        if checks.flag(over_budget, "over_budget"):
            self._content.more["over_budget"] = True
        return entry

    def compact(
        self,
        summary: str,
        *,
        tail_start: IdRef | None,
        previous: Context | IdRef | None = None,
        instruction: str = INSTRUCTION,
        **fields: Any,
    ) -> tuple[Message, Message]:
        """Add a compaction request and its summary, as `messages.compact` does by itself.

        A turn reads nothing, so `previous` is the context that was summarised, or the request of
        the compaction before this one. A run that goes on from here names the summary's id as
        the `compacted_snapshot` of its input.
        """
        request, answer = compaction_pair(summary, tail_start, previous, instruction, fields)
        return self._content.add(request), self._content.add(answer)

    def draft(self, **fields: Any) -> Draft:
        """An assistant message that is being streamed: a context manager with `write(token)`.

        A clean exit adds the message to this turn; an exception leaves it to be found by
        `drafts.list`.
        """
        return Draft(self._handle, self._content, self.lease, self._create, fields)

    def adopt(self, draft: DraftRecord, **fields: Any) -> Message:
        """Add what a dead writer left as a message, with its id; the draft goes with the commit."""
        if not isinstance(draft, DraftRecord):
            raise InvalidValue("draft", f"a draft expected, got {type(draft).__name__}")
        if draft.session != self.session:
            raise SessionBindingMismatch(self.session, draft.session)
        merged = {**draft.fields, **fields, "id": draft.id}
        made = self._content.say(draft.role, draft.text, merged)
        self._content.extend("drop_drafts", (draft.id,))
        return made

    def checkpoint(self, given: HydratedCheckpoint | None = None, **fields: Any) -> Checkpoint:
        """Store the state of the turn; given parts become values, absent ones keep their ref.

        Fields: turn_state, tool_state(_ref), plugins(_ref), plugins_revision, execution(_ref).
        """
        if given is None:
            try:
                given = HydratedCheckpoint(**fields)
            except TypeError as error:
                raise InvalidValue("checkpoint", str(error)) from None
        elif fields:
            given = replace(given, **fields)
        return self._content.set_checkpoint(given)

    def head(self, *, config: Any = UNSET, frames: Any = UNSET, current_frame: Any = UNSET) -> None:
        """Store config, and frames with the current one, whole."""
        self._content.set_head(config, frames, current_frame)

    def complete(self, claim: Claim) -> None:
        """Remove the batches of a queue claim. ClaimLost at the commit, and nothing of it happens,
        when the claim does not own them under its token and the current fence.
        """
        self._content.complete(claim)

    def ask(
        self,
        call_id: str,
        *,
        tool: str | None = None,
        arguments: Any = UNSET,
        reason: str | None = None,
        message: str | None = None,
        mode: str = "replay_tool_call",
        response_schema: Any = None,
        expires_s: float | None = None,
        on_expiry: str = "reject",
        id: str | None = None,
    ) -> Ticket:
        """Ask somebody about a tool call of this turn; its run, if any, waits for the decision.

        Modes: replay_tool_call, use_decision_as_tool_result, pass_decision_to_tool. For a call
        that is in no message of this turn, give tool and arguments. AlreadyExists at the commit
        when the id is taken.
        """
        given = Question(
            tool, arguments, reason, message, mode, response_schema, expires_s, on_expiry, id
        )
        return ask(self._content, self.id, call_id, given)

    def execution(
        self, id: IdRef, *, result: Any = UNSET, error: Any = UNSET, duration_ms: int | None = None
    ) -> None:
        """Finish an execution of this session with the commit; ExecutionNotFound,
        ExecutionResolved then.
        """
        self._content.extend("executions", (finish_of(id, result, error, duration_ms),))

    def enqueue(
        self,
        *payloads: Any,
        session: SessionRef | None = None,
        id: str | None = None,
        **how: Unpack[Keywords],
    ) -> str:
        """Work that is queued if and only if this turn is committed; answers the batch's id.

        For this session, or another one. Keywords as of `work.enqueue`: key, queue, delivery,
        slot, merge, priority, delay_s, available_at, max_attempts, backoff_s. When the key is
        queued already at the commit, that batch stays and the id is not used.
        """
        where = checks.maybe_session(session)
        return self._content.enqueue(where, payloads, id, how)

    async def commit(
        self, *, lease: AnyLease | None = None, release: bool = False, connection: object = None
    ) -> TurnCommitted:
        """Make everything that was added durable, or nothing of it.

        A repeated turn answers as the first time, with `replayed`; a second call, with nothing
        added since, answers what the first one did. `connection`: write it inside
        the transaction of this connection to the same PostgreSQL database; whoever ends that one
        decides about the turn. Errors: SessionNotFound, SessionDeleted, TurnConflict, LeaseHeld,
        LeaseExpired, Fenced, RevisionMoved, IncarnationMoved, LeafMoved, ClaimLost,
        BranchNotFound, AlreadyExists, MessageNotFound, IllegalTransition, BudgetExceeded,
        InvalidValue, NotSupported, and what the backend meets.
        """
        self._told = not self._content.is_empty()
        if lease is not None:
            self.lease = checks.bound(self.session, lease)[1]
        if release and self.lease is None:
            raise InvalidValue("release", "there is no lease to release")
        if self._first is not None and self._content.is_empty() and release <= self._given_back:
            return self._first
        command = self._command(release)
        if connection is None:
            answer = await commit(self._handle, command, self.lease)
            self._first = self._committed(command, answer)
            self._given_back = release
            return self._first
        # Whether this one lasts is not known here, so it is not answered a second time.
        self._first = None
        return self._committed(command, await join(self._handle, command, self.lease, connection))

    def discard(self) -> None:
        """Forget what was added since the last commit; what is added next has a new turn id."""
        self._content.empty()
        self._id = None

    async def __aenter__(self) -> AsyncTurn:
        await may_begin(self._handle, self.session, self._create)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            self._told = True
        elif not self._content.is_empty():
            await self.commit()

    def __del__(self, warn: Any = warnings.warn) -> None:
        if self.warns and not self._told and not self._content.is_empty():
            text = f"a turn of session {self.session!r} was filled and never committed"
            warn(f"{text}; call commit(), or discard()", ResourceWarning, 2, source=self)

    def _command(self, release: bool) -> CommitTurn:
        content = self._content
        return CommitTurn(
            tenant=self._handle.tenant,
            session=self.session,
            turn=self.id,
            kind="turn",
            guard=checks.guard(self.lease, self.expected_revision, self.expected_incarnation),
            create=self._create,
            parent_rule="exists",
            branch=self.branch,
            nodes=tuple(content.nodes),
            release=release,
            **content.more,
        )

    def _committed(self, command: CommitTurn, answer: TurnCommitted) -> TurnCommitted:
        """The answer with its messages; from here on the next turn is collected."""
        content = self._content
        if answer.over_budget:
            budgets_changed(self._handle)
        # By position, not by id: a replayed turn answers with the ids of the first time.
        places: Iterable[Any] = zip(command.nodes, answer.placed, strict=True)
        if len(content.messages) < len(command.nodes):
            places = [(node, place) for node, place in places if node.role is not None]
        messages = bodies.placed_messages(self.session, content.messages, places)
        content.empty()
        self._told = False
        self._id = self._create = None
        if self.expected_revision is not None:
            self.expected_revision = answer.revision
        # The one that was not there was made, and which it is was not told.
        self.expected_incarnation = self.expected_incarnation or None
        return replace(answer, messages=messages)
