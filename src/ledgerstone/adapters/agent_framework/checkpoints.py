"""Checkpoints of workflows as nodes: each hangs under the one before it.

Large parts of the state are values, stored once by content, so that a workflow whose state hardly
changes does not store it again with every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from datetime import datetime
from hashlib import sha256
from typing import Any

from agent_framework import WorkflowCheckpoint
from agent_framework.exceptions import WorkflowCheckpointException

from ledgerstone import ids
from ledgerstone.adapters.agent_framework.values import Types, check, decode, encode
from ledgerstone.adapters.sync_async import AnyStore, StoreRunner, each, of, runs_async
from ledgerstone.codec import decode_json, encode_json
from ledgerstone.errors import AlreadyExists, InvalidValue
from ledgerstone.records.nodes import Node
from ledgerstone.records.sessions import Session

APP = "agent-framework"
KIND = "agent-framework.checkpoint"
AGAIN = "again"
VALUE = "$value"
INLINE_BYTES = 512
EXECUTORS = "_executor_state"


class LedgerCheckpointStorage:
    """A CheckpointStorage: the checkpoints that follow each other are one session.

    `types`: dataclasses, pydantic models and Enums that states and messages contain, as a list
    (stored by class name) or a mapping from names. What is neither JSON nor registered is refused
    when it is saved, with its place.
    """

    def __init__(
        self,
        store: AnyStore,
        *,
        types: Iterable[type[Any]] | Mapping[str, type[Any]] = (),
    ) -> None:
        self._runner = StoreRunner(store)
        self._store = store
        self._types = Types(types)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Store it; with an id that is there, it replaces that one. NotSupported, InvalidValue."""
        given: object = checkpoint
        if not isinstance(given, WorkflowCheckpoint):
            kind = type(given).__name__
            raise InvalidValue("checkpoint", f"a WorkflowCheckpoint expected, got {kind}")
        ids.check_id(checkpoint.checkpoint_id, "checkpoint_id")
        # Before the first wait: the caller's objects may change after it.
        body = encode(self._types, checkpoint.to_dict(), "checkpoint")
        check(self._types, body, "checkpoint")
        return await self._save(checkpoint, body)

    @runs_async
    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """By id; WorkflowCheckpointException when there is none."""
        found = await self._find(checkpoint_id)
        node = None
        if found is not None:
            get = self._store.nodes.get
            node = await of(get(found.session, checkpoint_id, notes=True, resolve=True))
        if node is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return await self._checkpoint(node)

    @runs_async
    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Of a workflow, in the order they were saved."""
        nodes = await self._nodes(workflow_name, resolve=True)
        return [await self._checkpoint(node) for node in nodes]

    @runs_async
    async def delete(self, checkpoint_id: str) -> bool:
        """Whether there was one to delete."""
        found = await self._find(checkpoint_id)
        return found is not None and bool(
            await of(self._store.nodes.tombstone(found.session, [checkpoint_id]))
        )

    @runs_async
    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """The one with the latest timestamp, or None."""
        nodes = await self._nodes(workflow_name)
        if not nodes:
            return None
        newest = max(nodes, key=lambda node: datetime.fromisoformat(_body(node)["timestamp"]))
        return await self._checkpoint(newest)

    @runs_async
    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        return [node.id for node in await self._nodes(workflow_name)]

    @runs_async
    async def _save(self, checkpoint: WorkflowCheckpoint, body: dict[str, Any]) -> str:
        id, values = checkpoint.checkpoint_id, _split(body)
        old = await self._find(id)
        if old is not None:
            if old.label != checkpoint.workflow_name:
                raise InvalidValue("workflow_name", f"checkpoint {id!r} is of {old.label!r}")
            note = {AGAIN: body}
            await of(
                self._store.nodes.annotate(old.session, id, note, mode="replace", values=values)
            )
            return id
        before = None
        if checkpoint.previous_checkpoint_id is not None:
            before = await self._find(checkpoint.previous_checkpoint_id)
        session = f"workflow-{ids.new_id()}" if before is None else before.session
        try:
            await self._append(session, checkpoint, body, values, before)
        except AlreadyExists:
            # Deleted there: ids are not used twice in one session.
            await self._append(f"workflow-{ids.new_id()}", checkpoint, body, values, None)
        return id

    async def _append(
        self,
        session: str,
        checkpoint: WorkflowCheckpoint,
        body: dict[str, Any],
        values: list[bytes],
        before: Node | None,
    ) -> None:
        name = ids.check_label(checkpoint.workflow_name, "workflow_name")
        node = Node(
            id=checkpoint.checkpoint_id,
            kind=KIND,
            label=name,
            body=body,
            parent=None if before is None else before.id,
            values=tuple(sha256(value).hexdigest() for value in values),
        )
        made = Session(id=session, tenant=self._store.tenant or "", app=APP, title=name or None)
        await of(
            self._store.nodes.append(
                session, node, values=values, create=made, parent_missing="root"
            )
        )

    async def _find(self, id: str) -> Node | None:
        found = await of(self._store.nodes.find(ids.check_id(id, "checkpoint_id")))
        return next((node for node in found if node.kind == KIND), None)

    async def _nodes(self, workflow_name: str, *, resolve: bool = False) -> list[Node]:
        found = self._store.nodes.iter(
            kind=KIND, label=workflow_name, order="id", notes=True, resolve=resolve
        )
        nodes = [node async for node in each(found)]
        return sorted(nodes, key=lambda node: (node.created_us, node.ord))

    async def _checkpoint(self, node: Node) -> WorkflowCheckpoint:
        body = _body(node)
        wanted = _refs(body)
        known = node.resolved or {}
        if wanted - known.keys():
            known = await of(self._store.nodes.values(node.session, wanted))
        said = decode(self._types, _joined(body, known))
        return WorkflowCheckpoint.from_dict(said)


def _body(node: Node) -> dict[str, Any]:
    """What was saved last under the id."""
    note = (node.notes or {}).get(AGAIN)
    found: dict[str, Any] = node.body if note is None else note.body
    return found


def _split(body: dict[str, Any]) -> list[bytes]:
    """Put digests in the place of large parts; answers what they stand for. Changes the body."""
    values = []
    for holder in _holders(body):
        for key, part in holder.items():
            data = encode_json(part, key)
            if len(data) > INLINE_BYTES and key != EXECUTORS:
                values.append(data)
                holder[key] = {VALUE: sha256(data).hexdigest()}
    return values


def _holders(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects whose parts may be values: the executors' states, the state, the messages."""
    state = body["state"]
    executors = state.get(EXECUTORS)
    inner = [executors] if isinstance(executors, dict) else []
    found = [*inner, state, body["messages"], body["pending_request_info_events"]]
    return [one for one in found if isinstance(one, dict)]


def _refs(body: dict[str, Any]) -> set[str]:
    return {part[VALUE] for holder in _holders(body) for part in holder.values() if _is_ref(part)}


def _is_ref(part: Any) -> bool:
    return isinstance(part, dict) and part.keys() == {VALUE}


def _joined(body: dict[str, Any], known: Mapping[str, bytes]) -> dict[str, Any]:
    """The body with its large parts again."""
    made = deepcopy(body)
    for holder in _holders(made):
        for key, part in holder.items():
            if _is_ref(part):
                holder[key] = decode_json(known[part[VALUE]])
    return made
