"""What a put has to store: which messages are new, where they go, and how the rest is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from msgspec.structs import replace

from ledgerstone.adapters.langgraph.chains import EMPTY, Chain, text_bytes
from ledgerstone.adapters.langgraph.conversation import (
    HINT,
    first_body,
    is_first,
    is_newest,
    refuse_delta,
    standing,
    state_before,
)
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
from ledgerstone.adapters.langgraph.threads import KIND, Facts, Known, Place, State, View, short_id
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
        self.views: list[View] = []
        """The conversation as the run has it; several when it is not known which."""
        self.seen = False
        """Whether the run has seen what others added after the parent."""
        self.rewrites = False
        """Whether its list has some of the conversation, but not the beginning."""
        self.first: dict[str, Any] | None = None
        """The body of the parent, when that is to be stored along."""

    def add(self, channel: str, grown: Chain, kept: Sequence[Kept], names: Sequence[str]) -> None:
        """A list of messages, the last of which are new."""
        for one, node in zip(kept, names, strict=True):
            self.places.add(one.key, one.pristine, node)
            self.nodes.append((one.key, one.pristine, node))
        self.places.chains.append(grown)
        self.chains.append((channel, grown, text_bytes(one.pristine for one in kept)))


async def plan(
    core: Shared, place: Place, given: Given, known: Known, facts: Facts, *, aside: bool = False
) -> Plan:
    """Everything that a put has to store; reads only what this process does not know.

    `aside`: main's path stays as it is.
    """
    before = await _state_before(core, place, known, facts)
    made = Plan(core.places(place.session), facts)
    if not aside and not place.ns:
        refuse_delta(place, facts, given.metadata, before)
        await _begin(core, place, given, made, before)
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
        if (emptied := _emptied(rest, given, before, known, place)) is not None:
            base = await _base(core, place, before.values.get(emptied))
            found = await standing(core, place, known, facts, given.metadata, emptied, base)
            if found is not None:
                found.left_out(core, [], changed=True)
            made.start, made.last_message = True, None
        elif not is_newest(place, facts):
            await _go_back(core, place, made)
        else:
            made.views = [one._replace(own=True) for one in known.views.get(str(place.node), ())]
    for name in rest:
        trees[name] = _write(core, known, made, name, given.values[name])
    _say(core, place, given, made, trees)
    return made


async def _state_before(core: Shared, place: Place, known: Known, facts: Facts) -> State:
    """The channels of the parent."""
    if place.node is None:
        return State({}, {})
    if is_first(place) and facts.latest.get("") is None:
        return state_before(place, known, facts)
    found = known.states.get(place.node)
    if found is None:
        [node] = await core.read(
            GetNode(tenant=core.tenant, session=place.session, id=place.node, notes=True)
        )
        if node is None or node.kind != KIND:
            return State({}, {})
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
        if name == main and await _take_up(core, place, given, known, made, trees, main, base):
            continue
        if name == main and type(given.values[name]) is _DeltaSnapshot and not base.items:
            # Checkpoints between two snapshots hold no list; main's path has the last one.
            base = await _base(core, place, {"$tip": made.facts.last_message})
        chain, length = made.places.longest(lists[name], base, main=name == main)
        path = f"channel_values.{name}"
        kept = [core.messages.keep(m, f"{path}[{n}]") for n, m in _after(lists[name], length)]
        names = [short_id() for _ in kept]
        grown = chain.upto(length).followed_by([one.pristine for one in kept], names)
        if name == main:
            grown = _on_main(core, place, known, made, base, chain, grown, kept, length)
            made.views = _own_views(name, grown)
        else:
            grown = _aside(made, grown, kept, length)
        made.add(name, grown, kept, names)
        is_delta = type(given.values[name]) is _DeltaSnapshot
        trees[name] = {"$delta": grown.tree} if is_delta else grown.tree
    if main is not None and main not in lists:
        stays = await _base(core, place, trees[main])
        if not await _take_up(core, place, given, known, made, trees, main, stays):
            _refuse_foreign(core, place, known, made, stays)
            _follow(made, stays)
            made.views = _own_views(main, stays)


async def _take_up(
    core: Shared,
    place: Place,
    given: Given,
    known: Known,
    made: Plan,
    trees: dict[str, Tree],
    main: str,
    base: Chain,
) -> bool:
    """Keep what others added to the conversation after the parent.

    A run that has not seen it goes on after it. True when nothing is left to be done for main.
    """
    changed = main not in trees
    is_cleared = base.items and made.facts.last_message is None
    if not changed and is_cleared and is_newest(place, made.facts):
        trees[main] = []  # By others.
        return True
    found = await standing(core, place, known, made.facts, given.metadata, main, base)
    if found is None:
        return False
    made.places.chains.append(found.whole)
    value = _whole(given.values.get(main))
    held = value if is_list(value) else None
    shown = found.left_out(core, held, changed=changed)
    if shown is not None and not found.seen:
        _refuse_foreign(core, place, known, made, base)
    if shown is None and changed:
        ids = {one.id for one in found.whole.items}
        made.seen, made.rewrites = True, any(one.id in ids for one in held or ())
        return False
    kept: list[Kept] = []
    if held is not None and shown is not None:
        path = f"channel_values.{main}"
        after = _after(held, len(shown.items))
        kept = [core.messages.keep(one, f"{path}[{n}]") for n, one in after]
    names = [short_id() for _ in kept]
    grown = found.whole.followed_by([one.pristine for one in kept], names)
    made.main = _named(grown, kept, len(found.whole.items))
    made.last_message = names[-1] if names else made.facts.last_message
    made.add(main, grown, kept, names)
    made.views = [found.view(main, shown, grown)]
    trees[main] = grown.tree
    return True


def _whole(value: Any) -> Any:
    """A channel's value, out of the wrapping that says that it is a snapshot of a delta channel."""
    return value.value if type(value) is _DeltaSnapshot else value


def _emptied(
    names: Sequence[str], given: Given, before: State, known: Known, place: Place
) -> str | None:
    """The channel whose list of messages has become an empty one."""
    shown = {one.channel for one in known.views.get(str(place.node), ())}
    shown |= {name for name, tree in before.values.items() if chain_key(tree) is not None}
    return next((name for name in names if name in shown and given.values[name] == []), None)


async def _begin(core: Shared, place: Place, given: Given, made: Plan, before: State) -> None:
    """Store the parent along, when it is the first checkpoint of a session begun elsewhere."""
    if is_first(place) and made.facts.latest.get("") is None:
        chain = await _base(core, place, before.values[MAIN])
        made.first = first_body(chain, given.ts) if chain.items else None


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
    chain: Chain,
    grown: Chain,
    kept: Sequence[Kept],
    length: int,
) -> Chain:
    """Put new messages on main's path, after the last one that stays."""
    attach = grown.nodes[length - 1] if length else None
    if length and made.facts.last_message in (chain.tip, attach) and length == len(chain.items):
        attach = made.facts.last_message
    messages = _named(grown, kept, length)
    _refuse_foreign(core, place, known, made, base)
    if not messages:
        _follow(made, grown)
        return grown
    if attach is None and made.facts.last_message is not None:
        if base.items or made.rewrites or not is_newest(place, made.facts):
            # The list begins anew (trimmed, summarised, another line), as does the conversation.
            made.start = True
        else:
            grown = grown._replace(first=messages[0].id)
    elif attach != made.facts.last_message:
        messages[0] = replace(messages[0], parent=attach)
    made.main = messages
    made.last_message = messages[-1].id
    return grown


def _own_views(channel: str, chain: Chain) -> list[View]:
    return [] if chain.tip is None else [View(channel, (chain.tip, chain.first), own=True)]


def _follow(made: Plan, chain: Chain) -> None:
    """The checkpoint stands after a list that is there already."""
    if chain.last is not None and chain.last != made.facts.last_message:
        made.parent = chain.last
        made.last_message = chain.last


def _refuse_foreign(core: Shared, place: Place, known: Known, made: Plan, base: Chain) -> None:
    """Messages that somebody else added after the parent are not passed over in silence."""
    if core.on_divergence != REFUSE or not base.items or place.node in known.asked:
        return
    if base.last != made.facts.last_message and not made.seen:
        raise LeafMoved("main", base.last, made.facts.last_message, HINT)


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
