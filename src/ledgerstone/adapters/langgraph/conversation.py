"""The session's conversation as the state of a thread: what others said is taken up by itself.

Other frameworks append to the session after a thread's newest checkpoint. Reading the newest state
shows their messages in the channel that holds the conversation; a put keeps them in the history. A
checkpoint that is asked for by its id stays as it was put.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID

from langchain_core.messages import BaseMessage

from ledgerstone.adapters.langgraph.chains import Chain, Key
from ledgerstone.adapters.langgraph.context import SaverContext
from ledgerstone.adapters.langgraph.messages import is_from_put
from ledgerstone.adapters.langgraph.threads import (
    VIEWS_MAX,
    ChannelState,
    CheckpointRef,
    View,
)
from ledgerstone.adapters.langgraph.values import COUNTERS, MAIN, chain_key, main_channel
from ledgerstone.clock import to_datetime
from ledgerstone.errors import LeafMoved
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Head

if TYPE_CHECKING:
    from ledgerstone.adapters.langgraph.puts import CheckpointPut
    from ledgerstone.adapters.langgraph.reading import StoredCheckpoint

FIRST_META: dict[str, Any] = {"source": "update", "step": -1, "parents": {}}
HINT = (
    "messages were added to the session that this run has not seen: run the graph again from the "
    "newest state, or make a checkpoint of all messages with saver.adopt(thread_id)"
)
Body: TypeAlias = dict[str, Any]


class Divergence(NamedTuple):
    """The conversation on main, when that is not where the parent of a put ends."""

    whole: Chain
    """All of it."""
    shown: Sequence[Chain]
    """Lists that runs may go on from and that are not all of it."""
    seen: bool
    """Whether a run may have seen all of it."""

    def part_seen(
        self, core: SaverContext, given: list[BaseMessage] | None, *, changed: bool
    ) -> Chain | None:
        """What a run has of the conversation when that is not all; None when it has seen all.

        `given`: its list. LeafMoved when it changed what comes before messages that it has not
        seen.
        """
        common = core.messages.common
        if given is None:
            return None if self.seen else max(self.shown, key=_size, default=None)
        if common(self.whole.items, given) == _size(self.whole):
            return None
        fits = [one for one in self.shown if common(one.items, given) == _size(one)]
        fits = [one for one in fits if not self._has_more(one, given)]
        if fits:
            longest = max(fits, key=_size)
            if len(given) > _size(longest) or not changed or not self.seen:
                return longest
        if self.seen:
            return None
        last = self.shown[-1].last if self.shown else None
        raise LeafMoved("main", last, self.whole.last, HINT)

    def _has_more(self, shown: Chain, given: list[BaseMessage]) -> bool:
        """Whether a list has messages of the conversation that `shown` has not."""
        more = {one.id for one in self.whole.items} - {one.id for one in shown.items}
        return any(one.id is not None and one.id in more for one in given)

    def view(self, channel: str, shown: Chain | None, grown: Chain) -> View:
        """What a run has seen when its list is stored as `grown`."""
        nodes = {one for one in self.whole.nodes if one is not None}
        hidden = frozenset() if shown is None else nodes.difference(shown.nodes)
        return View(channel, (str(grown.tip), grown.first), frozenset(hidden), own=True)


def first_id(session: str) -> str:
    """The id of the checkpoint that a session begun elsewhere has before the first put.

    It sorts before every id that LangGraph makes, and it is stored with the first put.
    """
    digest = hashlib.sha256(session.encode("utf-8", "surrogatepass")).digest()
    return str(UUID(bytes=bytes(6) + b"\x60\x00\x80" + digest[:7]))


def is_first(ref: CheckpointRef) -> bool:
    """Whether a config names the checkpoint that is stored with the first put."""
    return not ref.ns and ref.checkpoint == first_id(ref.session)


async def first_checkpoint(
    core: SaverContext, ref: CheckpointRef, head: Head | None
) -> Body | None:
    """The body of the first checkpoint of a session that began elsewhere; it is not stored yet."""
    is_empty = head is None or not head.messages
    if ref.ns or is_empty or not (ref.checkpoint is None or is_first(ref)):
        return None
    last = await _last(core, ref)
    if last is None or is_from_put(last):
        return None
    key = (last.id, None)
    chain = await core.chain(ref.session, key)
    core.threads[ref.session].show(first_id(ref.session), View(MAIN, key))
    return first_body(chain, to_datetime(last.created_us).isoformat())


async def current(
    core: SaverContext, ref: CheckpointRef, stored: StoredCheckpoint, head: Head | None
) -> Body:
    """The body of the newest checkpoint with what others said since.

    One that was asked for by its id stays as it is.
    """
    cache = core.threads[ref.session]
    channel = None if ref.ns else _channel(stored)
    if channel is None:
        return stored.body
    before = chain_key(stored.body["val"].get(channel))
    stays = ref.checkpoint is not None or head is None
    if head is not None and not stays:
        stays = head.effective_leaf == stored.id if before else not head.messages
    last = None if stays else await _last(core, ref)
    if stays or not await _has_moved(core, stored, before, last):
        if before is not None:
            cache.show(stored.id, View(channel, before))
        return stored.body
    tree: Any = []
    if last is not None:
        key = (last.id, before[1] if before else None)
        tree = (await core.chain(ref.session, key)).tree
        cache.show(stored.id, View(channel, key))
    return {**stored.body, "val": {**stored.body["val"], channel: tree}}


def state_before(put: CheckpointPut) -> ChannelState:
    """The state of the checkpoint that is stored with the first put."""
    views = put.cache.views.get(str(put.ref.node), ())
    tip, first = views[-1].key if views else (put.head.last_message, None)
    tree = {"$tip": tip} if first is None else {"$tip": tip, "f": first}
    return ChannelState({}, {MAIN: tree})


async def divergence(put: CheckpointPut, channel: str, base: Chain) -> Divergence | None:
    """The conversation, when others changed it after the newest checkpoint, the put's parent."""
    core, session, last = put.core, put.ref.session, put.head.last_message
    views = [one for one in put.cache.views.get(str(put.ref.node), ()) if one.channel == channel]
    is_full = len(views) >= VIEWS_MAX
    moved = put.head.foreign or any(one.hidden or one.key[0] != base.tip for one in views)
    if last is None or not moved or not put.is_newest:
        return None
    if not base.items and not views and channel != MAIN:
        return None
    if put.request.metadata.get("source") == "update":
        # It has read the state, and is no run that goes on after its own put.
        views = [one for one in views if not one.own] or views
    whole = await core.chain(session, (last, base.first))
    shown = [base] if not views else []
    for view in views:
        if view.hidden or view.key[0] != last:
            tip, first = view.key
            found = whole.upto_node(tip) if first == whole.first else None
            chain = found or await core.chain(session, view.key)
            shown.append(chain.without(view.hidden))
    # When some were forgotten, a list that fits none may be of a run that read one of those.
    return Divergence(whole, shown, len(shown) < len(views) and not is_full)


def _size(chain: Chain) -> int:
    return len(chain.items)


def refuse_delta(put: CheckpointPut) -> None:
    """LeafMoved when others wrote after a checkpoint whose messages are a delta channel.

    Such a channel is rebuilt from writes of its own thread, so nothing else can get into it.
    """
    is_delta = MAIN in (put.request.metadata.get(COUNTERS) or ())
    if not put.head.foreign or not is_delta or not put.is_newest:
        return
    key, last = chain_key(put.before.values.get(MAIN)), put.head.last_message
    if key is None or key[0] != last:
        raise LeafMoved("main", put.ref.checkpoint, last, HINT)


def first_body(chain: Chain, ts: str) -> Body:
    """The body of the checkpoint that is stored with the first put."""
    # Without a version: a graph that has no such channel does not go on with it.
    return {"ts": ts, "ver": {}, "val": {MAIN: chain.tree}}


async def _last(core: SaverContext, ref: CheckpointRef) -> Message | None:
    return next(iter(await core.path(ref.session, last=1)), None)


def _channel(stored: StoredCheckpoint) -> str | None:
    """The channel that takes up what others said, if there is one."""
    if MAIN in (stored.meta.get(COUNTERS) or ()):
        return None
    trees = stored.body["val"]
    found = main_channel(name for name, tree in trees.items() if chain_key(tree) is not None)
    if found is not None:
        return None if "$delta" in trees[found] else found
    return MAIN if trees.get(MAIN, []) == [] else None


async def _has_moved(
    core: SaverContext, stored: StoredCheckpoint, key: Key | None, last: Message | None
) -> bool:
    """Whether others changed the conversation since: added to it, cut it, or began it anew."""
    if last is None:
        return key is not None
    if not is_from_put(last) and (key is None or last.ord > stored.ord):
        return True
    if key is None:
        return False
    chain = await core.chain(stored.session, key)
    return last.id != chain.last and last.ord < stored.ord
