"""Threads as sessions: their names, and what a process caches of each of them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import threading
from collections import OrderedDict
from typing import Any, NamedTuple, TypeVar

from langchain_core.runnables import RunnableConfig

from ledgerstone import ids
from ledgerstone.adapters.langgraph.chains import Key
from ledgerstone.adapters.langgraph.values import Tree, has_new
from ledgerstone.adapters.sync_async import of
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

    @property
    def session_metadata(self) -> dict[str, Any] | None:
        """What the session remembers: a name that is not its id."""
        return None if self.session == self.thread else {THREAD_KEY: self.thread}

    def config(self, checkpoint: str) -> RunnableConfig:
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
    """What a first commit makes."""
    metadata = ref.session_metadata
    return True if metadata is None else Session(id=ref.session, metadata=metadata)


def node_id(checkpoint: str, ns: str) -> str:
    """The node of a checkpoint. Ids are unique in a namespace only, and sorted by their text."""
    if not ns:
        return checkpoint
    digest = hashlib.sha256(ns.encode("utf-8", "surrogatepass")).digest()
    mark = base64.b32encode(digest).decode().lower()[:NS_CHARS]
    return ids.check_id(f"{checkpoint}{NS_MARK}{mark}", "checkpoint_id")


def checkpoint_id(node: str, ns: str) -> str:
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


class LruDict(OrderedDict[K, V]):
    """A dict of limited size: `put` forgets the entries that were not put for longest."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._lock = threading.Lock()

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self[key] = value
            self.move_to_end(key)
            while len(self) > self._most:
                self.popitem(last=False)

    def discard(self, key: K) -> None:
        with self._lock:
            self.pop(key, None)

    def entries(self) -> list[tuple[K, V]]:
        """All entries at one moment, the last put last."""
        with self._lock:
            return list(self.items())


class ThreadCache:
    """What this process caches of one thread: nothing is needed to be right, only to be fast.

    What a put decides by is the head; the rest are copies of what never changes.
    """

    def __init__(self, writing: ThreadLock) -> None:
        self.writing = writing
        self.putting = 0
        """How many puts are under way."""
        self._lock = threading.Lock()
        self.asked: LruDict[str, None] = LruDict(HELD_MAX)
        """Checkpoints that were asked for by their id: whoever goes on from there means it."""
        self.views: LruDict[str, tuple[View, ...]] = LruDict(STATES_MAX)
        """What runs that go on from a checkpoint have seen."""
        self.forget()

    def forget(self) -> None:
        """Somebody else changed the session: everything has to be read again."""
        self.revision: tuple[int, int] | None = None
        """The incarnation and revision at which the rest was true."""
        self.head: ThreadHead | None = None
        self.states: LruDict[str, ChannelState] = LruDict(STATES_MAX)
        self.tips: LruDict[Key, None] = LruDict(TIPS_MAX)
        """Lists that others may share a beginning with."""
        self.nodes: LruDict[bytes, tuple[str, str | None]] = LruDict(NODES_MAX)
        """Messages that are nodes, by `name_of` their text: the node, and the message's id."""
        self.held: LruDict[tuple[str, str], tuple[Tree, int]] = LruDict(HELD_MAX)
        """Notes that may point at messages later, and how many puts could not shorten them."""
        self.chained: set[str] = set()
        """Channels that hold messages."""

    def hold(self, node: str, key: str, body: Tree, puts: int = 0) -> None:
        """Hold a note as long as it may be shortened."""
        if puts < HELD_PUTS and has_new(body):
            self.held.put((node, key), (body, puts))
        else:
            self.held.discard((node, key))

    def count(self, puts: int) -> None:
        with self._lock:
            self.putting += puts

    def show(self, node: str, view: View) -> None:
        """A run that goes on from a checkpoint has this list."""
        with self._lock:
            shown = [one for one in self.views.get(node, ()) if one != view]
            if len(shown) == VIEWS_MAX:
                del shown[1]  # The first one is of the run that put the checkpoint.
            self.views.put(node, (*shown, view))


class Threads:
    """The caches of all threads that this process has to do with."""

    def __init__(self, *, blocking: bool) -> None:
        self._blocking = blocking
        self._caches: LruDict[str, ThreadCache] = LruDict(THREADS_MAX)
        self._lock = threading.Lock()

    def __getitem__(self, session: str) -> ThreadCache:
        with self._lock:
            found = self._caches.get(session)
            if found is None:
                found = ThreadCache(ThreadLock(blocking=self._blocking))
            self._caches.put(session, found)
            return found


def short_id() -> str:
    """A random id of 13 characters: shorter than a UUID, since there are many in a session."""
    return base64.b32encode(os.urandom(SHORT_BYTES)).decode().rstrip("=").lower()


def name_of(text: str) -> bytes:
    """A short name of a text, to find it by."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
