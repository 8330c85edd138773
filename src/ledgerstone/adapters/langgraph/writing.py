"""Writing checkpoints and pending writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import get_checkpoint_metadata
from msgspec import UNSET

from ledgerstone import ids
from ledgerstone.adapters.faces import of
from ledgerstone.adapters.langgraph.conversation import FIRST_META, is_first
from ledgerstone.adapters.langgraph.envelopes import (
    check_versions,
    unpack_meta,
)
from ledgerstone.adapters.langgraph.messages import is_from_put
from ledgerstone.adapters.langgraph.plans import Given, Plan, plan
from ledgerstone.adapters.langgraph.reading import AGAIN, CHANNEL_NOTE, stored_of
from ledgerstone.adapters.langgraph.shared import REFUSE, Shared
from ledgerstone.adapters.langgraph.threads import (
    KIND,
    START_KIND,
    Facts,
    Known,
    Place,
    State,
    checkpoint_id,
    new_session,
    node_id,
    short_id,
)
from ledgerstone.adapters.langgraph.values import Tree, digests, has_new, settled
from ledgerstone.api.turn import AsyncTurn
from ledgerstone.api_sync.turn import Turn
from ledgerstone.commands.nodes import GetNode, ListNodes, ReadMessages
from ledgerstone.commands.sessions import GetHead
from ledgerstone.errors import (
    AlreadyExists,
    InvalidValue,
    LeafMoved,
    RevisionMoved,
)

ATTEMPTS = 8


class Writing:
    """Puts of one store."""

    def __init__(self, core: Shared) -> None:
        self._core = core

    async def put(self, place: Place, given: Given) -> RunnableConfig:
        """Store a checkpoint: one commit.

        Errors: LeafMoved when divergence is refused, InvalidValue, NotSupported, and what a
        commit raises.
        """
        known = self._core.threads[place.session]
        known.count(1)
        try:
            async with known.gate:
                await self._put(place, given, known)
        finally:
            known.count(-1)
        return place.config(given.id)

    async def _put(self, place: Place, given: Given, known: Known) -> None:
        core, node = self._core, node_id(given.id, place.ns)
        for attempt in range(ATTEMPTS):
            facts = await self._learn(place, known)
            self._refuse_divergence(place, given, known, facts)
            again = node in known.states
            # What a run that was given up still puts is older than what the thread shows by now.
            late = not place.ns and given.id < (facts.latest[""] or "")
            made = await plan(core, place, given, known, facts, aside=again or late)
            store = self._again if again else self._commit
            try:
                await store(place, given, known, made)
                return
            except BaseException as error:
                # What was thought of the session may be wrong, or not be so any more.
                core.forget(place.session, known)
                if not _is_stale(error, node) or attempt == ATTEMPTS - 1:
                    raise
                if isinstance(error, AlreadyExists):
                    known.remember(node, State({}, {}))

    async def _learn(self, place: Place, known: Known) -> Facts:
        """Where the session stands; read only when that is not known."""
        core, session = self._core, place.session
        needed = "" if not place.ns else place.ns if core.on_divergence == REFUSE else None
        facts = known.facts or self._recall(session, known)
        if facts is not None and (needed is None or needed in facts.latest):
            return facts
        head, found, last = await core.read(
            GetHead(tenant=core.tenant, id=session),
            ListNodes(
                tenant=core.tenant,
                session=session,
                kind=KIND,
                label=needed or "",
                order="-id",
                limit=1,
            ),
            ReadMessages(tenant=core.tenant, session=session, last=1),
        )
        core.compare(session, known, head)
        incarnation, revision = (0, 0) if head is None else (head.incarnation, head.revision)
        newest = checkpoint_id(found[0].id, needed or "") if found else None
        latest = {**(known.facts.latest if known.facts else {}), needed or "": newest}
        foreign = bool(last) and not is_from_put(last[0])
        foreign = foreign and (not found or last[0].ord > found[0].ord)
        last_message = last[0].id if last else None
        known.facts = Facts(incarnation, revision, last_message, latest, foreign)
        return known.facts

    def _recall(self, session: str, known: Known) -> Facts | None:
        """What the last read saw is as good as a read: the commit names its revision."""
        seen, known.seen = known.seen, None
        chain = None if seen is None else self._core.chains.get(session, seen.chain)
        if seen is None or chain is None or not chain.items:
            return None
        latest: dict[str, str | None] = {"": seen.checkpoint}
        return Facts(seen.incarnation, seen.revision, chain.last, latest)

    def _refuse_divergence(self, place: Place, given: Given, known: Known, facts: Facts) -> None:
        """The second writer from one parent is told so, unless it named the parent itself."""
        if self._core.on_divergence != REFUSE:
            return
        latest = facts.latest[place.ns]
        if latest in (place.checkpoint, given.id) or (latest is None and is_first(place)):
            return
        if place.node is None or place.node not in known.asked:
            raise LeafMoved(place.ns or "main", place.checkpoint, latest)

    async def _commit(self, place: Place, given: Given, known: Known, made: Plan) -> None:
        turn = self._begin(place, given, made)
        self._fill(turn, place, given, made)
        shorter = list(_shortened(known, made))
        for (about, key), body in shorter:
            turn.note(about, key, body, _refs(body))
        answer = await of(turn.commit())
        self._remember(place, given, known, made, answer.revision)
        for (about, key), body in shorter:
            known.hold(about, key, body) if has_new(body) else known.release(about, key)

    def _begin(self, place: Place, given: Given, made: Plan) -> Turn | AsyncTurn:
        """A turn with what has no place in the conversation: values, and messages beside it."""
        turn = self._core.store.turns.begin(
            place.session,
            id=short_id(),
            run_id=given.run_id,
            lease=given.lease,
            expected_revision=made.facts.revision,
            # A session without a commit has no head to tell it by; then nothing points anywhere.
            expected_incarnation=made.facts.incarnation or None,
            create=new_session(place),
        )
        turn.warns = False
        for messages in made.aside:
            turn.add(*messages, on_path=False)
        for data in made.values.values():
            turn.value(data)
        return turn

    def _fill(self, turn: Turn | AsyncTurn, place: Place, given: Given, made: Plan) -> None:
        """New messages of the conversation, and the checkpoint."""
        node = node_id(given.id, place.ns)
        if made.start:
            turn.node(START_KIND, id=short_id(), parent=None)
        if made.first is not None:
            turn.node(KIND, made.first, id=str(place.node), meta=FIRST_META)
        turn.add(*made.main)
        parent: Any = UNSET if made.parent is None else made.parent
        turn.node(
            KIND,
            made.body,
            id=node,
            label=place.ns,
            meta=made.meta,
            values=made.refs,
            parent=parent,
        )
        for name, tree in made.notes.items():
            turn.note(node, CHANNEL_NOTE + name, tree, _refs(tree))

    def _remember(
        self, place: Place, given: Given, known: Known, made: Plan, revision: int
    ) -> None:
        core = self._core
        latest = dict(made.facts.latest)
        latest[place.ns] = max(given.id, latest.get(place.ns) or "")
        incarnation = made.facts.incarnation or 1
        known.facts = Facts(incarnation, revision, made.last_message, latest)
        known.stood = incarnation, revision
        known.remember(node_id(given.id, place.ns), State(made.body["ver"], made.body["val"]))
        for view in made.views:
            known.show(node_id(given.id, place.ns), view)
        for channel, chain, size in made.chains:
            core.chains.put(place.session, chain, size)
            known.point_at(chain)
            known.chained.add(channel)
        for key, pristine, node in made.nodes:
            known.saw(key, pristine, node)
        for name, tree in made.notes.items():
            known.hold(node_id(given.id, place.ns), CHANNEL_NOTE + name, tree)

    async def _again(self, place: Place, given: Given, known: Known, made: Plan) -> None:
        """The same checkpoint a second time: when it says something else, it says that now."""
        core, node = self._core, node_id(given.id, place.ns)
        [stored] = await core.read(
            GetNode(tenant=core.tenant, session=place.session, id=node, notes=True)
        )
        if stored is None:
            raise AlreadyExists(given.id)
        body = made.body | {"val": {**made.body["val"], **made.notes}}
        now = stored_of(stored)
        meta = unpack_meta(made.meta, "np" in body)
        if not made.aside and (now.body, now.meta) == (body, meta):
            return
        turn = self._begin(place, given, made)
        turn.note(node, AGAIN, {"body": body, "meta": made.meta}, made.refs)
        await of(turn.commit())
        core.forget(place.session)


def given_of(config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any) -> Given:
    """What a put was given, as it is now: LangGraph goes on changing it."""
    values = checkpoint["channel_values"]
    check_versions(checkpoint["channel_versions"], checkpoint["versions_seen"])
    more = {key: one for key, one in checkpoint.items() if key not in _SAID}
    known = dict(get_checkpoint_metadata(config, metadata))
    run_id: Any = known.get("run_id")
    return Given(
        id=str(ids.check_id(checkpoint["id"], "checkpoint.id")),
        version=checkpoint["v"],
        ts=checkpoint["ts"],
        values={key: list(one) if type(one) is list else one for key, one in values.items()},
        versions=dict(checkpoint["channel_versions"]),
        seen={key: dict(one) for key, one in checkpoint["versions_seen"].items()},
        updated=checkpoint.get("updated_channels"),
        more={key: one for key, one in more.items() if one},
        metadata=known,
        changed=frozenset(new_versions),
        run_id=run_id if _is_id(run_id) else None,
        lease=(config.get("configurable") or {}).get("ledger_lease"),
    )


_SAID = (
    "id",
    "v",
    "ts",
    "channel_values",
    "channel_versions",
    "versions_seen",
    "updated_channels",
)


def _is_stale(error: BaseException, node: str) -> bool:
    """Whether a put failed by what it believed, so that it may try again."""
    if isinstance(error, AlreadyExists):
        return error.id == node
    if isinstance(error, InvalidValue):
        return error.field == "parent"
    return isinstance(error, RevisionMoved)


def _shortened(known: Known, made: Plan) -> Iterator[tuple[tuple[str, str], Tree]]:
    """Notes that can point at messages now; the others have to wait for one more put."""
    with known.lock:
        held = list(known.held.items())
    for about, (body, puts) in held:
        shorter = settled(body, made.places)
        if shorter != body:
            yield about, shorter
        else:
            known.hold(*about, body, puts + 1)


def _refs(tree: Tree) -> list[str]:
    return list(dict.fromkeys(digests(tree)))


def _is_id(value: object) -> bool:
    try:
        ids.check_id(value, "run_id")
    except InvalidValue:
        return False
    return True
