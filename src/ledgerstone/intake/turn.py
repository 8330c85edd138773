"""What a turn collects before it is committed: no I/O, the same for both kinds of store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from msgspec import UNSET
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.codec import encode_given, encode_json
from ledgerstone.commands.turns import Amendment, NewCheckpoint
from ledgerstone.commands.work import Completion
from ledgerstone.errors import InvalidValue, SessionBindingMismatch
from ledgerstone.intake import bodies, checks
from ledgerstone.intake.artifacts import QUOTA, Fields, check_fields, new_artifact, quota_of
from ledgerstone.intake.blobs import Ref, blobs_of_patch, named_blobs
from ledgerstone.intake.checks import IdRef, SessionRef
from ledgerstone.intake.compaction import INSTRUCTION, compaction_pair
from ledgerstone.intake.content import Content, id_list
from ledgerstone.intake.embeddings import Vector
from ledgerstone.intake.evidence import REPORTS, TRACES, AnyEvent, AnyReport
from ledgerstone.intake.executions import finish_of
from ledgerstone.intake.memories import new_memory
from ledgerstone.intake.tickets import ask
from ledgerstone.intake.usage import Priced, usage_entry
from ledgerstone.intake.work import Keywords, check_keywords, claim_record, new_batch
from ledgerstone.records.artifacts import Quota
from ledgerstone.records.context import Context
from ledgerstone.records.document import scrub_config
from ledgerstone.records.drafts import DraftRecord
from ledgerstone.records.evidence import Report, TraceEvent
from ledgerstone.records.memories import Namespace
from ledgerstone.records.messages import Message, tool_result
from ledgerstone.records.nodes import NOTE_MODES, Node
from ledgerstone.records.runs import Run
from ledgerstone.records.tickets import Ticket
from ledgerstone.records.turns import Checkpoint, HydratedCheckpoint
from ledgerstone.records.usage import Cost, Usage, UsageEntry
from ledgerstone.records.work import Claim


class TurnContent:
    """The part of a turn that both kinds share as it is: it collects, and waits for nothing."""

    def __init__(self, session: str, run_id: str | None, id: str | None, equipment: Priced) -> None:
        self.session = session
        self._content = Content(session, run_id)
        self._id = id
        self._equipment = equipment

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
        body = bodies.tool_body(call_id, content, fields)
        if body is None:
            return self._content.add(tool_result(call_id, content, **fields))
        if type(content) is list:
            self._content.name_blobs(named_blobs(body))
        return self._content.put(body)

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
        patch = bodies.amendment_patch(fields)
        amendment = Amendment(checks.record_id(id, "id"), patch, bodies.salt())
        self._content.extend("amendments", (amendment,))
        self._content.name_blobs(blobs_of_patch(fields))

    def tombstone(self, *ids: IdRef) -> None:
        """Hide nodes; unknown ones are ignored."""
        self._content.extend("tombstones", id_list(ids, "id"))

    def state(self, **patch: Any) -> None:
        """Merge into the session's state; a key set to None is removed."""
        checks.json_object(patch, "state")
        more = self._content.more
        more["state"] = {**more.get("state", {}), **patch}

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
            self._equipment,
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
        revision = given.plugins_revision
        manifest = Checkpoint(
            turn_state=checks.json_object(given.turn_state, "turn_state"),
            tool_state=self._component(given.tool_state, given.tool_state_ref, "tool_state_ref"),
            plugins=self._component(given.plugins, given.plugins_ref, "plugins_ref"),
            plugins_revision=None if revision is None else checks.whole(revision, "revision"),
            execution=self._component(given.execution, given.execution_ref, "execution_ref"),
        )
        data = encode_given(manifest, "checkpoint")
        digest = bodies.new_value(data).digest
        self._content.more["checkpoint"] = NewCheckpoint(digest, manifest, data)
        return manifest

    def _component(self, value: object, ref: str | None, field: str) -> str | None:
        """A given value becomes a value of the session, an absent one keeps its reference."""
        if value is not None:
            return self._content.add_value(value)
        return None if ref is None else checks.digests((ref,), field)[0]

    def head(self, *, config: Any = UNSET, frames: Any = UNSET, current_frame: Any = UNSET) -> None:
        """Store config, and frames with the current one, whole."""
        more = self._content.more
        if config is not UNSET:
            more["config"] = encode_json(scrub_config(config), "config")
        if frames is UNSET and current_frame is UNSET:
            return
        if not isinstance(frames, list):
            raise InvalidValue("frames", "frames are stored whole: give the list")
        current = "" if current_frame is UNSET else ids.check_label(current_frame, "current_frame")
        more["frames"] = encode_json({"frames": frames, "current": current}, "frames")

    def complete(self, claim: Claim) -> None:
        """Remove the batches of a queue claim. ClaimLost at the commit, and nothing of it happens,
        when the claim does not own them under its token and the current fence.
        """
        given = claim_record(claim)
        if given.session != self.session:
            raise SessionBindingMismatch(self.session, given.session)
        self._content.extend("complete", (Completion(given.id, given.token),))

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
        return ask(
            self._content,
            self.id,
            call_id,
            tool=tool,
            arguments=arguments,
            reason=reason,
            message=message,
            mode=mode,
            response_schema=response_schema,
            expires_s=expires_s,
            on_expiry=on_expiry,
            id=id,
        )

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
        where = self.session if session is None else checks.session_id(session)
        name = self._content.draw()[0] if id is None else id
        batch = new_batch(where, payloads, id=name, **check_keywords(how))
        self._content.extend("enqueue", (batch,))
        return batch.id

    def attach(self, *ids: IdRef) -> None:
        """Stamp attachments of this session as used; unknown ones are ignored."""
        self._content.extend("attach", id_list(ids, "attachment"))

    def artifact(
        self, name: str, blob: Ref, *, quota: Quota | None = QUOTA, **fields: Unpack[Fields]
    ) -> str:
        """Keep a stored blob as the next version of the name, in this session; answers its id.

        Keywords as of `artifacts.put`; errors at the commit: BlobNotFound, QuotaExceeded.
        """
        content, quota = self._content, quota_of(quota)
        new = new_artifact(name, blob, check_fields(name, fields), content.draw()[0])
        content.extend("artifacts", (new,))
        content.more["quota"] = quota
        return new.id

    def trace(self, event: AnyEvent) -> TraceEvent:
        """Add to the session's traces with the commit; an event of no run is of this one."""
        made = TRACES.take(event)
        if made.run_id is None and self._content.run_id is not None:
            made = replace(made, run_id=self._content.run_id)
        self._content.extend("traces", (TRACES.encode(made),))
        return made

    def report(self, report: AnyReport) -> Report:
        """Add to the session's verification reports with the commit."""
        made = REPORTS.take(report)
        self._content.extend("reports", (REPORTS.encode(made),))
        return made

    def remember(
        self,
        namespace: Namespace,
        key: str,
        value: Any,
        *,
        ttl_s: float | None = None,
        vector: Vector | None = None,
        model: str = "",
    ) -> None:
        """A memory that is there if and only if this turn is committed; as `memories.put`."""
        made = new_memory(namespace, key, value, ttl_s=ttl_s, vector=vector, model=model)
        self._content.extend("memories", (made,))
