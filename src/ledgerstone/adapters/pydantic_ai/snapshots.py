"""Snapshots of a run's history: nodes that name the tip of a path of messages.

A history grows by a few messages from one snapshot to the next, so only those are written; what
both begin with is shared, also with the conversation itself.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace
from pydantic_ai_harness.step_persistence import ContinuableSnapshot

from ledgerstone import ids
from ledgerstone.adapters.pydantic_ai import chains
from ledgerstone.adapters.pydantic_ai.chains import Chain
from ledgerstone.adapters.pydantic_ai.heads import REWRITE
from ledgerstone.adapters.pydantic_ai.sessions import STEPS, Cache, steps_of
from ledgerstone.adapters.sync_async import AnyStore, each, of
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.commands.sessions import GetHead
from ledgerstone.errors import InvalidValue, RevisionMoved
from ledgerstone.records.messages import Message
from ledgerstone.records.nodes import Node
from ledgerstone.records.sessions import Head

KIND = "pydantic-ai.snapshot"
TRIES = 10
CHAINS_KEPT = 64


class Base(NamedTuple):
    """What stands on a branch after one commit."""

    incarnation: int
    revision: int
    leaf: str | None
    chain: Chain
    anew: bool = False
    """Whether the chain was written again to know what it is."""


class Snapshots:
    """Writes and reads the snapshots of runs."""

    def __init__(self, store: AnyStore, branch: str | None, keep: int | None) -> None:
        if keep is not None and (type(keep) is not int or keep < 1):
            raise InvalidValue("max_snapshots_per_run", f"a number from 1 or None, got {keep!r}")
        self._store = store
        self._branch = branch
        self._keep = keep
        self._chains = Cache[tuple[str, int, str], Chain](CHAINS_KEPT)
        self._bases = Cache[str, Base](CHAINS_KEPT)

    async def save(self, session: str, snapshot: ContinuableSnapshot) -> None:
        """Write one, unless its key says that it was; then forget what is not to be kept."""
        natives = chains.dump(snapshot.messages)
        digests = [chains.digest(native) for native in natives]
        for left in range(TRIES, -1, -1):
            base = await self._base(session)
            # After the base, whose revision guards the commit: nobody saves the same in between.
            newest = await self._nodes(session, snapshot.run_id, limit=1)
            mark = high_water(snapshot.idempotency_key, newest)
            if mark is None or await self._is_known(session, snapshot):
                return
            try:
                await self._write(session, base, snapshot, natives, digests, mark, newest)
                break
            except RevisionMoved:
                if not left:
                    raise
        if self._keep is not None:
            await self._prune(session, snapshot.run_id, self._keep)

    async def _is_known(self, session: str, snapshot: ContinuableSnapshot) -> bool:
        """Whether a kept snapshot has the key; numbered ones are known by the newest."""
        key = snapshot.idempotency_key
        if key is None or _number(key) is not None:
            return False
        kept = await self._nodes(session, snapshot.run_id)
        return any(node.body["idempotency_key"] == key for node in kept)

    async def read(
        self, session: str, run_id: str, *, interrupted: bool, limit: int | None
    ) -> list[ContinuableSnapshot]:
        """The newest so many that are kept, in the order they were saved."""
        nodes = await self._nodes(session, run_id, interrupted=interrupted, limit=limit)
        return [await self._snapshot(node) for node in nodes]

    async def _snapshot(self, node: Node) -> ContinuableSnapshot:
        body = dict(node.body)
        tip, _ = body.pop("tip"), body.pop("mark")
        path = []
        if tip is not None:
            path = await of(self._store.messages.history(node.session, at=tip))
        messages, _ = await chains.show(self._store, path)
        stamp = datetime.fromisoformat(body.pop("timestamp"))
        return ContinuableSnapshot(**body, timestamp=stamp, messages=messages)

    async def _nodes(
        self, session: str, run_id: str, *, interrupted: bool = True, limit: int | None = None
    ) -> list[Node]:
        found = self._store.nodes.iter(
            session,
            kind=KIND,
            label=None if interrupted else "complete",
            run_id=run_id,
            order="-ord",
            limit=limit,
        )
        newest = [node async for node in each(found)]
        return newest[::-1]

    async def _write(
        self,
        session: str,
        base: Base,
        snapshot: ContinuableSnapshot,
        natives: list[Any],
        digests: list[bytes],
        mark: dict[str, Any],
        before: list[Node],
    ) -> None:
        if not chains.goes_on(base.chain, natives, digests):
            looked, base = base, await self._base(session, anew=True)
            if base.revision != looked.revision:
                raise RevisionMoved(looked.revision, base.revision, session)
        key = (session, base.incarnation, snapshot.run_id)
        own = await self._own(key, before)
        stale = not (base.chain.gone or frozenset()).isdisjoint(digests)
        fits = chains.goes_on(base.chain, natives, digests) and not stale
        on_path = fits and snapshot.state == "complete" and self._branch is not None
        longer = own.common(digests)[0] > base.chain.common(digests)[0]
        chain = own if longer and not on_path else base.chain
        same, tip = chain.common(digests)
        names = ids.new_ids(len(natives) - same)
        fresh = await chains.keep(
            self._store, natives[same:], names, run_id=snapshot.run_id, first=same
        )
        end = names[-1] if names else tip
        node = _node(snapshot, end if natives else None, mark)
        if on_path:
            kept = Node(kind=REWRITE, body={"kept": same}, parent=tip)
            rewrite = kept if same < len(chain.links) else None
            revision = await self._commit(session, base, fresh, node, end, rewrite)
            grown = chain.grown(same, digests[same:], names)
            self._bases.put(session, Base(base.incarnation, revision, end, grown))
        else:
            await self._hang(session, base.revision, fresh, node, tip if same else None)
            # One commit more, and the branch stands where it stood.
            self._bases.put(session, base._replace(revision=base.revision + 1))
        self._chains.put(key, chain.grown(same, digests[same:], names))

    async def _commit(
        self,
        session: str,
        base: Base,
        fresh: list[Message],
        node: Node,
        end: str | None,
        rewrite: Node | None,
    ) -> int:
        """The messages go on the path, the snapshot beside it."""
        turn = self._store.turns.begin(
            session,
            branch=self._branch or "main",
            expected_revision=base.revision,
            expected_incarnation=base.incarnation,
            run_id=node.run_id,
        )
        turn.warns = False
        if rewrite is not None:
            turn.node(rewrite.kind, rewrite.body, parent=rewrite.parent)
        turn.add(*fresh)
        chains.count(turn, fresh)
        turn.node(KIND, node.body, label=node.label, parent=node.parent, on_path=False)
        if fresh and self._branch == "main":
            steps = steps_of(await of(self._store.sessions.state(session)), session)
            # From where it stood before the steps of one run after the other moved it.
            begun = steps["from"] if steps.get("leaf") == base.leaf and base.leaf else base.leaf
            turn.state(**{STEPS: {"session": session, "from": begun, "leaf": end}})
        return (await of(turn.commit())).revision

    async def _hang(
        self, session: str, revision: int, fresh: list[Message], node: Node, tip: str | None
    ) -> None:
        """The messages hang in the graph, and no branch shows them."""
        nodes: list[Node | Message] = []
        if fresh and tip is None:
            tip = ids.new_id()
            nodes.append(Node(id=tip, kind=REWRITE, body={"kept": 0}, parent=None))
        for one in fresh:
            nodes.append(replace(one, parent=tip))
            tip = one.id
        await of(
            self._store.nodes.append(
                session, *nodes, node, on_path=False, expected_revision=revision
            )
        )

    async def _base(self, session: str, *, anew: bool = False) -> Base:
        """What stands on the branch; known from before unless somebody wrote to the session."""
        tenant, branch = self._store.tenant or "", self._branch or "main"
        head = await of(self._store.sessions.head(session)) or Head()
        known = self._bases.get(session)
        now = (head.incarnation, head.revision)
        if known is not None and (known.incarnation, known.revision) == now and known.anew >= anew:
            return known
        query = ReadMessages(tenant=tenant, session=session, branch=branch, deleted=True)
        found, path = await of(self._store.read(GetHead(tenant=tenant, id=session), query))
        head = found or Head()
        chain = await chains.current_chain(self._store, path, anew=anew)
        base = Base(head.incarnation, head.revision, _leaf(head, branch), chain, anew)
        self._bases.put(session, base)
        return base

    async def _own(self, key: tuple[str, int, str], before: list[Node]) -> Chain:
        """The history of the run's last snapshot."""
        known = self._chains.get(key)
        if known is not None:
            return known
        tip = before[-1].body["tip"] if before else None
        if tip is None:
            return Chain()
        path = await of(self._store.messages.history(key[0], at=tip))
        return (await chains.show(self._store, path))[1]

    async def _prune(self, session: str, run_id: str, keep: int) -> None:
        """Hide snapshots beyond the newest so many; the newest complete one stays."""
        nodes = await self._nodes(session, run_id)
        spared = {node.id for node in nodes[-keep:]}
        spared |= {node.id for node in [n for n in nodes if n.label == "complete"][-1:]}
        gone = [node.id for node in nodes if node.id not in spared]
        if gone:
            await of(self._store.nodes.tombstone(session, gone))


def high_water(key: str | None, newest: list[Node]) -> dict[str, Any] | None:
    """What a snapshot remembers about numbered keys; None when this one was saved before.

    A key that begins with a number and a colon is older than all with a greater number, also
    after the snapshots that had those were forgotten.
    """
    mark: dict[str, Any] = newest[-1].body["mark"] if newest else {}
    number = None if key is None else _number(key)
    if number is None:
        return mark
    highest, known = mark.get("number"), mark.get("keys", [])
    if highest is None or number > highest:
        return {"number": number, "keys": [key]}
    if number < highest or key in known:
        return None
    return {"number": number, "keys": [*known, key]}


def _number(key: str) -> int | None:
    prefix, colon, _ = key.partition(":")
    try:
        value = int(prefix) if colon else -1
    except ValueError:
        return None
    return value if value >= 0 else None


def _node(snapshot: ContinuableSnapshot, tip: str | None, mark: dict[str, Any]) -> Node:
    body = {
        "run_id": snapshot.run_id,
        "step_index": snapshot.step_index,
        "conversation_id": snapshot.conversation_id,
        "parent_run_id": snapshot.parent_run_id,
        "agent_name": snapshot.agent_name,
        "timestamp": snapshot.timestamp.isoformat(),
        "state": snapshot.state,
        "idempotency_key": snapshot.idempotency_key,
        "tip": tip,
        "mark": mark,
    }
    return Node(
        kind=KIND,
        body=body,
        label=snapshot.state,
        parent=tip,
        run_id=snapshot.run_id,
    )


def _leaf(head: Head, branch: str) -> str | None:
    if branch == "main":
        return head.leaf
    return next((one.leaf for one in head.branches if one.name == branch), None)
