"""What a put has to store: which messages are new, where they go, and how the rest is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from msgspec.structs import replace

from ledgerstone.adapters.langgraph.chains import EMPTY, Chain, text_bytes
from ledgerstone.adapters.langgraph.envelopes import (
    VERSION,
    pack_meta,
    pack_seen,
    pack_ts,
    pack_updated,
)
from ledgerstone.adapters.langgraph.messages import Kept, is_list
from ledgerstone.adapters.langgraph.reading import stored_of
from ledgerstone.adapters.langgraph.shared import REFUSE, Shared, ThreadPlaces
from ledgerstone.adapters.langgraph.threads import KIND, Facts, Known, Place, State, short_id
from ledgerstone.adapters.langgraph.values import (
    MAIN,
    Tree,
    Writer,
    chain_key,
    digests,
    has_new,
    main_channel,
)
from ledgerstone.commands.nodes import GetNode, ReadMessages
from ledgerstone.errors import LeafMoved
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.messages import Message

INPUT = "__start__"


class Given(NamedTuple):
    """What a put was given."""

    id: str
    version: int
    ts: str
    values: dict[str, Any]
    versions: dict[str, Any]
    seen: dict[str, dict[str, Any]]
    updated: list[str] | None
    more: dict[str, Any]
    metadata: dict[str, Any]
    changed: frozenset[str]
    run_id: str | None
    lease: AnyLease | None


class Plan:
    """What one put stores."""

    def __init__(self, places: ThreadPlaces, facts: Facts) -> None:
        self.places = places
        self.facts = facts
        self.last_message = facts.last_message
        self.body: dict[str, Any] = {}
        self.meta: dict[str, Any] = {}
        self.refs: list[str] = []
        self.values: dict[str, bytes] = {}
        self.notes: dict[str, Tree] = {}
        """Channels whose values say messages that are no nodes yet."""
        self.start = False
        """Whether main's path begins anew."""
        self.parent: str | None = None
        """The node that the checkpoint follows, when it is not the branch's last one."""
        self.main: list[Message] = []
        self.aside: list[list[Message]] = []
        self.chains: list[tuple[str, Chain, int]] = []
        self.nodes: list[tuple[str, BaseMessage, str]] = []


async def plan(
    core: Shared, place: Place, given: Given, known: Known, facts: Facts, *, aside: bool = False
) -> Plan:
    """Everything that a put has to store; reads only what this process does not know.

    `aside`: main's path stays as it is.
    """
    before = await _state_before(core, place, known)
    made = Plan(core.places(place.session), facts)
    trees: dict[str, Tree] = {}
    lists: dict[str, list[BaseMessage]] = {}
    rest: list[str] = []
    for name in dict.fromkeys((*given.versions, *given.values)):
        if _is_unchanged(name, given, before):
            trees[name] = before.values[name]
        elif name not in given.values:
            continue
        elif is_list(_whole(given.values[name])):
            lists[name] = _whole(given.values[name])
        else:
            rest.append(name)
    kept = {name for name, tree in trees.items() if chain_key(tree) is not None}
    main = None if aside or place.ns else main_channel({*lists, *kept})
    await _plan_lists(core, place, given, known, made, lists, trees, before, main)
    if main is None and not aside and not place.ns:
        if _is_emptied(rest, given, before):
            made.start, made.last_message = True, None
        elif place.checkpoint != facts.latest.get(""):
            await _go_back(core, place, made)
    for name in rest:
        trees[name] = _write(core, known, made, name, given.values[name])
    _say(core, place, given, made, trees)
    return made


async def _state_before(core: Shared, place: Place, known: Known) -> State:
    """The channels of the parent."""
    if place.node is None:
        return State({}, {})
    found = known.states.get(place.node)
    if found is None:
        [node] = await core.read(
            GetNode(tenant=core.tenant, session=place.session, id=place.node, notes=True)
        )
        found = State({}, {})
        if node is not None and node.kind == KIND:
            found = stored_of(node).state
        known.remember(place.node, found)
    return found


def _is_unchanged(name: str, given: Given, before: State) -> bool:
    """Whether a channel says what it said in the parent, under the same version."""
    if name in given.changed or name not in before.values or name not in given.versions:
        return False
    tree = before.values[name]
    in_note = type(tree) is dict and "$note" in tree
    return not in_note and before.versions.get(name) == given.versions[name]


async def _plan_lists(
    core: Shared,
    place: Place,
    given: Given,
    known: Known,
    made: Plan,
    lists: dict[str, list[BaseMessage]],
    trees: dict[str, Tree],
    before: State,
    main: str | None,
) -> None:
    """Chains for the channels that hold messages; one of the root graph's is main's path."""
    for name in sorted(lists, key=lambda one: one != main):
        base = await _base(core, place, before.values.get(name))
        if name == main and type(given.values[name]) is _DeltaSnapshot and not base.items:
            # Checkpoints between two snapshots hold no list; main's path has the last one.
            base = await _base(core, place, {"$tip": made.facts.last_message})
        chain, length = made.places.longest(lists[name], base, main=name == main)
        path = f"channel_values.{name}"
        kept = [core.messages.keep(m, f"{path}[{n}]") for n, m in _after(lists[name], length)]
        names = [short_id() for _ in kept]
        grown = chain.upto(length).followed_by([one.pristine for one in kept], names)
        if name == main:
            grown = _on_main(core, place, known, made, base, grown, kept, length)
        else:
            grown = _aside(made, grown, kept, length)
        for one, node in zip(kept, names, strict=True):
            made.places.add(one.key, one.pristine, node)
            made.nodes.append((one.key, one.pristine, node))
        made.places.chains.append(grown)
        made.chains.append((name, grown, text_bytes(one.pristine for one in kept)))
        is_delta = type(given.values[name]) is _DeltaSnapshot
        trees[name] = {"$delta": grown.tree} if is_delta else grown.tree
    if main is not None and main not in lists:
        stays = await _base(core, place, trees[main])
        _refuse_foreign(core, place, known, made, stays)
        _follow(made, stays)


def _whole(value: Any) -> Any:
    """A channel's value, out of the wrapping that says that it is a snapshot of a delta channel."""
    return value.value if type(value) is _DeltaSnapshot else value


def _is_emptied(names: Sequence[str], given: Given, before: State) -> bool:
    """Whether a list of messages has become an empty one."""
    return any(
        chain_key(before.values.get(name)) is not None and given.values[name] == []
        for name in names
    )


async def _go_back(core: Shared, place: Place, made: Plan) -> None:
    """Stand where an older checkpoint without messages stood; those after it are not shown."""
    tenant, session, node = core.tenant, place.session, None
    if place.node is not None:
        [node] = await core.read(GetNode(tenant=tenant, session=session, id=place.node))
    if node is None:
        made.start, made.last_message = True, None
        return
    [before] = await core.read(ReadMessages(tenant=tenant, session=session, at=node.id, last=1))
    made.parent = node.id
    made.last_message = before[0].id if before else None


async def _base(core: Shared, place: Place, tree: Tree) -> Chain:
    key = chain_key(tree)
    return EMPTY if key is None else await core.chain(place.session, key)


def _on_main(
    core: Shared,
    place: Place,
    known: Known,
    made: Plan,
    base: Chain,
    grown: Chain,
    kept: Sequence[Kept],
    length: int,
) -> Chain:
    """Put new messages on main's path, after the last one that stays."""
    attach = grown.nodes[length - 1] if length else None
    messages = _named(grown, kept, length)
    _refuse_foreign(core, place, known, made, base)
    if not messages:
        _follow(made, grown)
        return grown
    if attach is None and made.facts.last_message is not None:
        if base.items or made.facts.latest.get("") != place.checkpoint:
            # The list begins anew (trimmed, summarised, another line), as does the conversation.
            made.start = True
        else:
            grown = grown._replace(first=messages[0].id)
    elif attach != made.facts.last_message:
        messages[0] = replace(messages[0], parent=attach)
    made.main = messages
    made.last_message = messages[-1].id
    return grown


def _follow(made: Plan, chain: Chain) -> None:
    """The checkpoint stands after a list that is there already."""
    if chain.last is not None and chain.last != made.facts.last_message:
        made.parent = chain.last
        made.last_message = chain.last


def _refuse_foreign(core: Shared, place: Place, known: Known, made: Plan, base: Chain) -> None:
    """Messages that somebody else added after the parent are not passed over in silence."""
    if core.on_divergence != REFUSE or not base.items or place.node in known.asked:
        return
    if base.last != made.facts.last_message:
        raise LeafMoved("main", base.last, made.facts.last_message)


def _aside(made: Plan, grown: Chain, kept: Sequence[Kept], length: int) -> Chain:
    """Put new messages beside main's path."""
    messages = _named(grown, kept, length)
    if not messages:
        return grown
    attach = grown.nodes[length - 1] if length else None
    if attach is None:
        # They follow main's last node, whose path is not theirs.
        grown = grown._replace(first=messages[0].id)
    else:
        messages[0] = replace(messages[0], parent=attach)
    for before, after in zip(messages, range(1, len(messages)), strict=False):
        messages[after] = replace(messages[after], parent=before.id)
    made.aside.append(messages)
    return grown


def _named(grown: Chain, kept: Sequence[Kept], length: int) -> list[Message]:
    names = grown.nodes[length:]
    return [replace(one.message, id=name) for one, name in zip(kept, names, strict=True)]


def _after(given: list[BaseMessage], length: int) -> list[tuple[int, BaseMessage]]:
    return list(enumerate(given))[length:]


def _write(core: Shared, known: Known, made: Plan, name: str, value: Any) -> Tree:
    """The value of a channel; input that says messages goes to a note, which can be shortened."""
    late: bool | frozenset[str] = False
    if name == INPUT:
        late = True if is_list(value) else frozenset((MAIN, *known.chained))
    writer = Writer(core.opaques, core.messages, made.places, late=late)
    tree = writer.write(value, f"channel_values.{name}")
    made.values |= writer.values
    if name == INPUT and has_new(tree):
        made.notes[name] = tree
        return {"$note": True}
    return tree


def _say(core: Shared, place: Place, given: Given, made: Plan, trees: dict[str, Tree]) -> None:
    """The body and the metadata of the checkpoint."""
    body: dict[str, Any] = {
        "ts": pack_ts(given.ts, given.id),
        "ver": given.versions,
        "val": trees,
    }
    if given.version != VERSION:
        body["v"] = given.version
    if place.checkpoint is not None:
        body["p"] = place.checkpoint
    if given.seen:
        body["seen"] = pack_seen(given.seen)
    if given.updated is not None:
        body["upd"] = pack_updated(given.updated, given.versions)
    made.meta, odd, missing = pack_meta(given.metadata)
    if missing:
        body["np"] = True
    more = {**given.more, "metadata": odd} if odd else dict(given.more)
    if more:
        writer = Writer(core.opaques, core.messages, made.places)
        body["more"] = writer.write(more, "checkpoint")
        made.values |= writer.values
    made.body = body
    said = [*trees.values(), body.get("more")]
    made.refs = list(dict.fromkeys(digest for tree in said for digest in digests(tree)))
