"""store.nodes: the graph below the conversation, of any kind of node, with notes and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.api.commits import commit
from ledgerstone.api.handle import AsyncResource, Missing
from ledgerstone.api.pages import CHUNK, AsyncPages
from ledgerstone.api.replacements import WantedGraph, new_graph_nodes, replace_graph
from ledgerstone.commands import nodes as commands
from ledgerstone.commands.turns import CommitTurn, NewNode
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import bodies, checks
from ledgerstone.intake.blobs import all_named
from ledgerstone.intake.checks import IdRef, SessionRef
from ledgerstone.intake.content import id_list
from ledgerstone.intake.sessions import new_session
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.messages import Message
from ledgerstone.records.nodes import MESSAGE, NOTE_MODES, Node, Note
from ledgerstone.records.sessions import Session
from ledgerstone.records.turns import Placed, ReplacedGraph
from ledgerstone.rules.matching import check_filter

ORDERS = ("ord", "-ord", "id", "-id")
PARENT_MISSING = ("error", "root")
_GIVEN = {"id", "kind", "body", "parent", "label", "run_id", "meta", "values", "created_us"}


class AsyncNodes(AsyncResource):
    """Entries of the graph."""

    async def append(
        self,
        session: SessionRef,
        *nodes: Node | Message | Mapping[str, Any],
        branch: str = "main",
        on_path: bool = True,
        parent_missing: str = "error",
        create: bool | Session = False,
        values: Iterable[object] = (),
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> list[Node]:
        """Add nodes in one commit; with the same ids and content it may be repeated.

        A node without a parent follows the one before it on the path. `on_path=False` hangs them
        in the graph, each after its parent or the branch's leaf, and moves no branch.
        `parent_missing="root"` accepts pruned histories. `values` are stored along. Errors: as
        messages.append, InvalidValue for an unknown parent.
        """
        target, owned = checks.bound(session, lease)
        if not nodes:
            return []
        given = [_to_node(node) for node in nodes]
        made = [_new_node(node, checks.flag(on_path, "on_path")) for node in given]
        command = CommitTurn(
            tenant=self._tenant,
            session=target,
            turn=ids.new_id(),
            kind="append",
            guard=checks.guard(owned, expected_revision),
            create=new_session(self._tenant, target, create),
            parent_rule="exists",
            branch=checks.branch_name(branch),
            nodes=tuple(made),
            missing_parent=checks.one_of(parent_missing, PARENT_MISSING, "parent_missing"),
            values=tuple(bodies.new_value(value) for value in values),
            blobs=all_named(node.body for node in given if isinstance(node, Message)),
        )
        answer = await commit(self._handle, command, owned)
        return [
            _placed(target, node, new, place)
            for node, new, place in zip(given, made, answer.placed, strict=True)
        ]

    async def replace(
        self,
        session: SessionRef,
        nodes: Iterable[Node | Message | Mapping[str, Any]],
        *,
        leaf: IdRef | None,
        branch: str = "main",
        create: bool | Session = False,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> ReplacedGraph:
        """Make the graph exactly these nodes, and the branch end at `leaf`, in one commit.

        Nodes that stand there with the same id, content and parent stay; the others are hidden,
        the rest is added. Each follows the one before it unless it names a parent, which must come
        before it. Other branches end at the nearest node that is left of theirs. If somebody
        commits meanwhile it is done again on what stands there then, unless a revision is expected.
        Errors: AlreadyExists for an id that other content or a hidden node has, InvalidValue for a
        parent or leaf that is no node of the graph, and as messages.append.
        """
        target, owned = checks.bound(session, lease)
        given = [_to_node(node) for node in checks.items(nodes, "nodes")]
        made = new_graph_nodes(given)
        end = checks.maybe_id(leaf, "leaf")
        if end is not None and end not in {new.id for new in made}:
            raise InvalidValue("leaf", f"{end!r} is no node of the graph")
        wanted = WantedGraph(
            session=target,
            branch=checks.branch_name(branch),
            given=given,
            nodes=made,
            leaf=end,
            lease=owned,
            expected_revision=expected_revision,
            create=new_session(self._tenant, target, create),
        )
        return await replace_graph(self._handle, wanted)

    async def get(
        self, session: SessionRef, id: IdRef, *, notes: bool = False, resolve: bool = False
    ) -> Node | None:
        """One live node, on request with its notes and the values it refers to; or None."""
        return await self._ask(
            commands.GetNode(
                tenant=self._tenant,
                session=checks.session_id(session),
                id=checks.record_id(id, "id"),
                notes=checks.flag(notes, "notes"),
                resolve=checks.flag(resolve, "resolve"),
            )
        )

    async def find(self, id: IdRef) -> list[Node]:
        """Live nodes with this id in any session of the tenant: copies keep their ids."""
        return await self._ask(
            commands.FindNodes(tenant=self._tenant, id=checks.record_id(id, "id"))
        )

    def iter(
        self,
        session: SessionRef | None = None,
        *,
        kind: str | None = None,
        label: str | None = None,
        run_id: IdRef | None = None,
        meta_contains: dict[str, Any] | None = None,
        before_id: IdRef | None = None,
        order: str = "-id",
        limit: int | None = None,
        notes: bool = False,
        resolve: bool = False,
        missing: Missing = "empty",
    ) -> AsyncPages[Node]:
        """Live nodes of a session or of the whole tenant, complete, in chunks."""
        most = None if limit is None else checks.positive(limit, "limit")
        chunk = CHUNK if most is None else min(most, CHUNK)
        query = commands.ListNodes(
            tenant=self._tenant,
            session=checks.maybe_session(session),
            kind=None if kind is None else ids.check_name(kind, "kind"),
            label=None if label is None else ids.check_label(label, "label"),
            run_id=checks.maybe_id(run_id, "run_id"),
            meta_contains=check_filter(meta_contains, "meta_contains"),
            before_id=checks.maybe_id(before_id, "before_id"),
            order=checks.one_of(order, ORDERS, "order"),
            limit=chunk,
            notes=checks.flag(notes, "notes"),
            resolve=checks.flag(resolve, "resolve"),
        )

        async def fetch(after: Node | None) -> list[Node]:
            key = None if after is None else (after.id, after.session, after.ord)
            return await self._ask(replace(query, after=key), missing)

        return AsyncPages(fetch, chunk=chunk, limit=most)

    async def path(
        self,
        session: SessionRef,
        *,
        at: IdRef | None = None,
        branch: str = "main",
        kind: str | None = None,
        limit: int | None = None,
        missing: Missing = "empty",
    ) -> list[Node]:
        """Live nodes from the root to a node or a branch's leaf; `limit`: the newest of them."""
        return await self._ask(
            commands.ReadPath(
                tenant=self._tenant,
                session=checks.session_id(session),
                branch=checks.branch_name(branch),
                at=checks.maybe_id(at, "at"),
                kind=None if kind is None else ids.check_name(kind, "kind"),
                last=None if limit is None else checks.positive(limit, "limit"),
            ),
            missing,
        )

    async def annotate(
        self,
        session: SessionRef,
        node: IdRef,
        notes: Mapping[str, object],
        *,
        mode: str = "keep",
        values: Iterable[object] = (),
    ) -> int:
        """Write notes beside a node, which need not exist yet; needs no lease.

        Mode keep: the first body of a key stays; replace: the last one wins. `values` are stored
        along, and each of these notes points at them. Answers how many were written.
        SessionNotFound, SessionDeleted.
        """
        if not isinstance(notes, Mapping):
            raise InvalidValue("notes", f"an object expected, got {type(notes).__name__}")
        kept = tuple(bodies.new_value(value) for value in values)
        refs = [value.digest for value in kept]
        return await self._write(
            commands.AnnotateNodes(
                tenant=self._tenant,
                session=checks.session_id(session),
                notes=tuple(bodies.new_note(node, key, body, refs) for key, body in notes.items()),
                values=kept,
                mode=checks.one_of(mode, NOTE_MODES, "mode"),
            )
        )

    async def notes(
        self, session: SessionRef, nodes: Iterable[IdRef], *, prefix: str = ""
    ) -> dict[str, dict[str, Note]]:
        """Notes of several nodes: node id, then key, in key order."""
        return await self._ask(
            commands.GetNotes(
                tenant=self._tenant,
                session=checks.session_id(session),
                nodes=tuple(id_list(nodes, "node")),
                prefix=ids.check_label(prefix, "prefix"),
            )
        )

    async def values(self, session: SessionRef, digests: Iterable[str]) -> dict[str, bytes]:
        """Values by their SHA-256; missing ones are absent."""
        return await self._ask(
            commands.GetValues(
                tenant=self._tenant,
                session=checks.session_id(session),
                digests=checks.digests(digests, "digests"),
            )
        )

    async def tombstone(
        self,
        session: SessionRef,
        ids_or_nodes: Iterable[IdRef],
        *,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> int:
        """Hide nodes at once; unknown and hidden ones are ignored. Answers how many it hid."""
        target, owned = checks.bound(session, lease)
        hidden = tuple(id_list(ids_or_nodes, "id"))
        if not hidden:
            return 0
        command = CommitTurn(
            tenant=self._tenant,
            session=target,
            turn=ids.new_id(),
            kind="tombstone",
            guard=checks.guard(owned, expected_revision),
            tombstones=hidden,
        )
        answer = await commit(self._handle, command, owned)
        return len(answer.affected)


def _new_node(node: Node | Message, on_path: bool) -> NewNode:
    if isinstance(node, Message):
        id = ids.check_id(node.id, "id") if node.id else ids.new_id()
        return replace(bodies.message_node(node, id, bodies.salt(), None), on_path=on_path)
    return bodies.node_of(node, on_path)


def _to_node(value: object) -> Node | Message:
    """A Node or Message as it is; a dictionary of a node's fields as a Node."""
    if isinstance(value, Node | Message):
        return value
    if not isinstance(value, Mapping):
        raise InvalidValue("nodes", f"a Node expected, got {type(value).__name__}")
    unknown = value.keys() - _GIVEN
    if unknown:
        raise InvalidValue(str(sorted(unknown, key=str)[0]), "a node has no such field")
    if "kind" not in value:
        raise InvalidValue("kind", "a node needs a kind")
    return Node(**value)


def _placed(session: str, given: Node | Message, new: NewNode, place: Placed) -> Node:
    if isinstance(given, Message):
        given = Node(kind=MESSAGE, body=bodies.plain(given.body), run_id=given.run_id)
    return Node(
        id=place.id,
        kind=given.kind,
        body=given.body,
        session=session,
        ord=place.ord,
        seq=place.seq,
        parent=place.parent,
        label=new.label,
        run_id=new.run_id,
        meta=given.meta,
        values=new.refs,
        created_us=place.created_us,
    )
