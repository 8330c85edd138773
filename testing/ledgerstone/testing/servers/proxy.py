"""A wire between a client and a server that can be slow, silent or cut at a chosen moment.

    with Proxy(server.port, latency_s=0.001) as proxy:
        store = ledgerstone.open(proxy.url(server.url("trial")))
        proxy.cut_at(b"COMMIT", Moment.ANSWERED)

One thread moves all bytes. Each piece has its own time of arrival, so latency costs no throughput.
"""

from __future__ import annotations

import enum
import queue
import re
import select
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from urllib.parse import urlsplit, urlunsplit

import msgspec

from ledgerstone.clock import monotonic_s
from ledgerstone.testing.servers.link import PIECE_BYTES, Link

HOST = "127.0.0.1"
ANSWER_S = 30.0
IDLE_S = 5.0


class Moment(enum.Enum):
    """When the wire is cut, seen from a request."""

    BEFORE = "the server never sees the request"
    SENT = "the server gets the request, and nobody waits for its answer"
    ANSWERED = "the server has answered, and the client does not see it"


class Trap(msgspec.Struct):
    """Waits for a request."""

    match: bytes
    moment: Moment
    nth: int
    action: Callable[[], None] | None


class Counts(msgspec.Struct):
    """What has passed. A round trip begins when the client speaks after the server did."""

    connections: int = 0
    round_trips: int = 0
    requests: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    cuts: int = 0


class Proxy:
    """Listens on a free port of the loopback and connects to `port` for each client."""

    def __init__(self, port: int, *, host: str = HOST, latency_s: float = 0.0) -> None:
        self._target = (host, port)
        self.latency_s = latency_s
        self.counts = Counts()
        self._links: list[Link] = []
        self._traps: list[Trap] = []
        self._failed: Exception | None = None
        self._silent = self._refusing = self._closed = False
        self._calls: queue.SimpleQueue[tuple[Callable[[], None], threading.Event]]
        self._calls = queue.SimpleQueue()
        self._listener = socket.create_server((HOST, 0), backlog=256)
        self._listener.setblocking(False)
        self._bell, self._ear = socket.socketpair()
        self._thread = threading.Thread(target=self._live, name="proxy", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def url(self, url: str) -> str:
        """The same url, through this wire."""
        parts = urlsplit(url)
        who, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{who}{at}{HOST}:{self.port}"))

    def cut(self) -> None:
        """Every connection ends now, without a farewell, on both sides."""
        self._ask(self._cut_all)

    def cut_at(
        self,
        match: bytes,
        moment: Moment,
        *,
        nth: int = 1,
        action: Callable[[], None] | None = None,
    ) -> None:
        """Cut the connection on which the nth request from now on meets this regular expression.

        A request holds its statement, also one that was prepared before, and what is bound to it.
        `action` is called first, at that very moment, by the thread of the proxy.
        """
        self._ask(lambda: self._traps.append(Trap(match, moment, nth, action)))

    def silence(self) -> None:
        """From now on nothing passes, in either direction, and nobody is told."""
        self._ask(lambda: self._set_silent(True))

    def speak(self) -> None:
        """Bytes pass again; connections that lost some are cut."""
        self._ask(lambda: self._set_silent(False))

    def refuse(self) -> None:
        """Cut everything, and every new connection as soon as it is made."""
        self._ask(lambda: self._set_refusing(True))

    def admit(self) -> None:
        """Let connections in again."""
        self._ask(lambda: self._set_refusing(False))

    def reset_counts(self) -> None:
        self._ask(lambda: setattr(self, "counts", Counts()))

    def close(self) -> None:
        """End everything; again is fine. Raises what an action raised."""
        if self._closed:
            return
        self._ask(self._finish)
        self._thread.join(ANSWER_S)
        for one in (self._listener, self._bell, self._ear):
            one.close()
        if self._failed is not None:
            raise self._failed

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- asked by others, done by the thread

    def _ask(self, call: Callable[[], None]) -> None:
        if threading.current_thread() is self._thread:
            call()
            return
        done = threading.Event()
        self._calls.put((call, done))
        self._bell.send(b"!")
        if not done.wait(ANSWER_S):
            raise TimeoutError("the proxy does not react")

    def _cut_all(self) -> None:
        for link in self._links:
            self._cut(link)

    def _cut(self, link: Link) -> None:
        if link.is_open:
            link.reset()
            self.counts.cuts += 1

    def _set_silent(self, silent: bool) -> None:
        self._silent = silent
        for link in self._links:
            if not silent and (link.lost_bytes or link.server is None):
                self._cut(link)

    def _set_refusing(self, refusing: bool) -> None:
        self._refusing = refusing
        if refusing:
            self._cut_all()

    def _finish(self) -> None:
        self._cut_all()
        self._closed = True

    # --- the thread

    def _live(self) -> None:
        while not self._closed:
            self._links = [link for link in self._links if link.is_open]
            readers = [self._ear, self._listener]
            writers = []
            for link in self._links:
                readers += link.readable()
                writers += link.writable()
            due_s = min((link.next_due_s() for link in self._links), default=None)
            wait_s = IDLE_S if due_s is None else min(IDLE_S, max(0.0, due_s - monotonic_s()))
            ready = set(select.select(readers, writers, [], wait_s)[0])
            if self._listener in ready:
                self._accept()
            for link in self._links:
                self._move(link, ready)
            if self._ear in ready:
                self._obey()

    def _obey(self) -> None:
        self._ear.recv(PIECE_BYTES)
        while not self._calls.empty():
            call, done = self._calls.get()
            call()
            done.set()

    def _accept(self) -> None:
        try:
            client = self._listener.accept()[0]
        except OSError:
            return
        self.counts.connections += 1
        link = Link(client)
        if self._refusing or not (self._silent or link.connect(self._target)):
            link.reset()
            return
        self._links.append(link)

    def _move(self, link: Link, ready: set[socket.socket]) -> None:
        """Take in what came, and send on what is due."""
        if link.is_open and link.client in ready:
            self._upwards(link, link.take(link.client))
        if link.is_open and link.server in ready:
            self._downwards(link, link.take(link.server))
        if link.is_open:
            link.send_due(monotonic_s())

    def _upwards(self, link: Link, data: bytes) -> None:
        self.counts.bytes_up += len(data)
        if self._silent:
            link.lose(data)
            return
        if data and link.client_speaks():
            self.counts.round_trips += 1
        trap = self._caught(link.requests.feed(data))
        if trap is not None and trap.moment is Moment.BEFORE:
            self._spring(link, trap)
            return
        link.up.put(data, monotonic_s() + self.latency_s)
        if trap is not None and trap.moment is Moment.SENT:
            link.deliver()
            self._spring(link, trap)
        elif trap is not None:
            link.trap = trap

    def _downwards(self, link: Link, data: bytes) -> None:
        self.counts.bytes_down += len(data)
        if self._silent:
            link.lose(data)
            return
        link.server_speaks()
        if link.trap is not None:
            self._spring(link, link.trap)
        else:
            link.down.put(data, monotonic_s() + self.latency_s)

    def _caught(self, requests: list[bytes]) -> Trap | None:
        """The trap that one of these requests springs; it is taken away."""
        self.counts.requests += len(requests)
        for trap in list(self._traps):
            trap.nth -= sum(re.search(trap.match, request) is not None for request in requests)
            if trap.nth <= 0:
                self._traps.remove(trap)
                return trap
        return None

    def _spring(self, link: Link, trap: Trap) -> None:
        try:
            if trap.action is not None:
                trap.action()
        except Exception as error:
            self._failed = error
        self._cut(link)
