"""Threads as sessions: their names, and what a process caches of each of them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import threading
from collections import OrderedDict
from typing import Any, NamedTuple, TypeVar

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from ledgerstone import ids
from ledgerstone.adapters.faces import of
from ledgerstone.adapters.langgraph.chains import Chain, Key
from ledgerstone.adapters.langgraph.values import Tree
from ledgerstone.errors import InvalidValue
from ledgerstone.records.sessions import Session

KIND = "langgraph.checkpoint"
START_KIND = "langgraph.start"
"""A node without a parent, for a list that begins anew."""
DERIVED = "lg-"
THREAD_KEY = "langgraph_thread"
NS_MARK = "~"
NS_CHARS = 8
SHORT_BYTES = 8
THREADS_MAX = 1024
STATES_MAX = 32
VIEWS_MAX = 32
"""States of one checkpoint, as others add to the session, that runs may have read."""
TIPS_MAX = 16
NODES_MAX = 256
HELD_MAX = 64
HELD_PUTS = 8
"""Puts after which a note is left as it is."""

K = TypeVar("K")
V = TypeVar("V")


class CheckpointRef(NamedTuple):
    """Where a config points: the session of a thread, a namespace, a checkpoint or its parent."""

    thread: str
    session: str
    ns: str
    checkpoint: str | None

    @property
    def node(self) -> str | None:
        return None if self.checkpoint is None else node_id(self.checkpoint, self.ns)

    def config(self, checkpoint: str) -> RunnableConfig:
        """The config of a checkpoint here."""
        return config_of(self.thread, self.ns, checkpoint)


def ref_of(config: RunnableConfig) -> CheckpointRef:
    """Where a config points; InvalidValue when it names no thread."""
    given = (config or {}).get("configurable") or {}
    thread = given.get("thread_id")
    if thread is None or thread == "":
        raise InvalidValue("configurable.thread_id", "a config needs a thread_id")
    ns = ids.check_label(given.get("checkpoint_ns") or "", "configurable.checkpoint_ns")
    checkpoint = given.get("checkpoint_id") or None
    if checkpoint is not None:
        ids.check_id(checkpoint, "configurable.checkpoint_id")
        checkpoint = str(checkpoint)
    return CheckpointRef(str(thread), session_id(thread), ns, checkpoint)


def config_of(thread: str, ns: str, checkpoint: str) -> RunnableConfig:
    """The config of one checkpoint, as every saver writes it."""
    found = {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint}
    return {"configurable": found}


def session_id(thread: object) -> str:
    """The session of a thread: its own name, or one derived from a name that cannot be an id."""
    name = str(thread)
    try:
        return ids.check_id(name, "thread_id")
    except InvalidValue:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
        return DERIVED + base64.b32encode(digest).decode().rstrip("=").lower()


def new_session(ref: CheckpointRef) -> bool | Session:
    """What a first commit makes: a session that remembers a name which is not its id."""
    if ref.session == ref.thread:
        return True
    return Session(id=ref.session, metadata={THREAD_KEY: ref.thread})


def node_id(checkpoint: str, ns: str) -> str:
    """The node of a checkpoint. Ids are unique in a namespace only, and sorted by their text."""
    if not ns:
        return checkpoint
    digest = hashlib.sha256(ns.encode("utf-8", "surrogatepass")).digest()
    mark = base64.b32encode(digest).decode().lower()[:NS_CHARS]
    return ids.check_id(f"{checkpoint}{NS_MARK}{mark}", "checkpoint_id")


def checkpoint_id(node: str, ns: str) -> str:
    """The checkpoint of a node."""
    return node[: -NS_CHARS - len(NS_MARK)] if ns else node


class ChannelState(NamedTuple):
    """What a later checkpoint may take over from one: versions and values of its channels."""

    versions: dict[str, Any]
    values: dict[str, Tree]


class ThreadHead(NamedTuple):
    """Where a session ends. A put decides by one of these, and its commit names the revision."""

    incarnation: int
    revision: int
    last_message: str | None
    """The newest message on main's path."""
    latest: dict[str, str | None]
    """The newest checkpoint of namespaces."""
    foreign: bool = False
    """Whether others wrote that message, after the newest checkpoint."""


class View(NamedTuple):
    """The conversation as a run has it: a list, without messages that came while it ran."""

    channel: str
    key: Key
    hidden: frozenset[str] = frozenset()
    own: bool = False
    """Whether the run put the checkpoint itself, in place of reading it."""


class ThreadLock:
    """One writer at a time for each thread of this process, over a sync or an async store."""

    def __init__(self, *, blocking: bool) -> None:
        self._lock = threading.Lock() if blocking else asyncio.Lock()

    async def __aenter__(self) -> None:
        await of(self._lock.acquire())

    async def __aexit__(self, *error: object) -> None:
        self._lock.release()


class ThreadCache:
    """What this process caches of one thread: nothing is needed to be right, only to be fast.

    What a put decides by is the head; the rest are copies of what never changes.
    """

    def __init__(self, writing: ThreadLock) -> None:
        self.writing = writing
        self.putting = 0
        """How many puts are under way."""
        self.lock = threading.Lock()
        self.asked: OrderedDict[str, None] = OrderedDict()
        """Checkpoints that were asked for by their id: whoever goes on from there means it."""
        self.views: OrderedDict[str, tuple[View, ...]] = OrderedDict()
        """What runs that go on from a checkpoint have seen."""
        self.forget()

    def forget(self) -> None:
        """Somebody else changed the session: everything has to be read again."""
        self.revision: tuple[int, int] | None = None
        """The incarnation and revision at which the rest was true."""
        self.head: ThreadHead | None = None
        self.states: OrderedDict[str, ChannelState] = OrderedDict()
        self.tips: OrderedDict[Key, None] = OrderedDict()
        self.nodes: OrderedDict[bytes, tuple[str, str | None]] = OrderedDict()
        self.held: OrderedDict[tuple[str, str], tuple[Tree, int]] = OrderedDict()
        """Notes that say a message which may become a node."""
        self.chained: set[str] = set()
        """Channels that hold messages."""

    def saw(self, key: str, pristine: BaseMessage, node: str) -> None:
        """A message is a node now."""
        with self.lock:
            _put(self.nodes, name_of(key), (node, pristine.id), NODES_MAX)

    def hold(self, node: str, key: str, body: Tree, puts: int = 0) -> None:
        """A note is written that may say less later; `puts` that could not shorten it so far."""
        with self.lock:
            if puts < HELD_PUTS:
                _put(self.held, (node, key), (body, puts), HELD_MAX)
            else:
                self.held.pop((node, key), None)

    def release(self, node: str, key: str) -> None:
        """A note says as little as it can."""
        with self.lock:
            self.held.pop((node, key), None)

    def count(self, puts: int) -> None:
        """Count puts that begin or end."""
        with self.lock:
            self.putting += puts

    def remember(self, node: str, state: ChannelState) -> None:
        _put(self.states, node, state, STATES_MAX)

    def point_at(self, chain: Chain) -> None:
        """A chain that others may share a beginning with."""
        if chain.tip is not None:
            with self.lock:
                _put(self.tips, (chain.tip, chain.first), None, TIPS_MAX)

    def show(self, node: str, view: View) -> None:
        """A run that goes on from a checkpoint has this list."""
        with self.lock:
            shown = [one for one in self.views.get(node, ()) if one != view]
            if len(shown) == VIEWS_MAX:
                del shown[1]  # The first one is of the run that put the checkpoint.
            _put(self.views, node, (*shown, view), STATES_MAX)

    def ask(self, node: str) -> None:
        with self.lock:
            _put(self.asked, node, None, HELD_MAX)


class Threads:
    """Every thread that this process has to do with, the longest unused ones forgotten first."""

    def __init__(self, *, blocking: bool) -> None:
        self._blocking = blocking
        self._caches: OrderedDict[str, ThreadCache] = OrderedDict()
        self._lock = threading.Lock()

    def __getitem__(self, session: str) -> ThreadCache:
        with self._lock:
            found = self._caches.get(session)
            if found is None:
                found = ThreadCache(ThreadLock(blocking=self._blocking))
            _put(self._caches, session, found, THREADS_MAX)
            return found


def short_id() -> str:
    """A random id of 13 characters: shorter than a UUID, since there are many in a session."""
    return base64.b32encode(os.urandom(SHORT_BYTES)).decode().rstrip("=").lower()


def name_of(text: str) -> bytes:
    """A short name of a text, to find it by."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _put(kept: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
