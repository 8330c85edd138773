"""A pooler in transaction mode: every transaction of a client may meet another server connection.

As PgBouncer does it: start-up parameters that it does not track are refused, named prepared
statements stay on the connection where they were made, and so do settings. Harsher than that, two
transactions that follow each other never get the same connection.
"""

from __future__ import annotations

import contextlib
import queue
import select
import socket
import struct
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from psycopg import Connection

HOST = "127.0.0.1"
SERVERS = 3
WAIT_S = 60.0
LOOK_S = 0.2
PIECE_BYTES = 1 << 16
TRACKED = frozenset(
    (
        *("user", "database", "client_encoding", "datestyle", "timezone", "application_name"),
        "standard_conforming_strings",
    )
)
_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102
_NAMES = (
    *("server_version", "server_encoding", "client_encoding", "integer_datetimes"),
    *("standard_conforming_strings", "DateStyle", "TimeZone"),
)


class Gone(Exception):
    """The other side has closed."""


class Pooler:
    """Use it as a block; `url` is the address for clients."""

    def __init__(self, url: str, servers: int = SERVERS) -> None:
        import psycopg

        self._raw: list[Connection[Any]] = [
            psycopg.connect(url, autocommit=True, sslmode="disable") for _ in range(servers)
        ]
        self._free: queue.Queue[int] = queue.Queue()
        for n in range(servers):
            self._free.put(n)
        self._listener = socket.create_server((HOST, 0), backlog=64)
        self._closed = False
        self._threads: list[threading.Thread] = []
        parts = urlsplit(url)
        who, at, _ = parts.netloc.rpartition("@")
        port = self._listener.getsockname()[1]
        self.url = urlunsplit(parts._replace(netloc=f"{who}{at}{HOST}:{port}"))
        self.transactions = 0
        self._start(self._accept)

    def __enter__(self) -> Pooler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed = True
        self._listener.close()
        for thread in self._threads:
            thread.join(WAIT_S)
        for raw in self._raw:
            raw.close()

    def _start(self, call: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=call, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            with contextlib.suppress(OSError):
                if select.select([self._listener], [], [], LOOK_S)[0]:
                    self._start(self._serve, self._listener.accept()[0])

    def _serve(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(Gone, OSError), client:
            if self._greet(client):
                self._relay(client)

    def _greet(self, client: socket.socket) -> bool:
        """Whether the client may come in."""
        while True:
            body = _exactly(client, int.from_bytes(_exactly(client, 4), "big") - 4)
            code = int.from_bytes(body[:4], "big")
            if code == _CANCEL:
                return False
            if code not in (_SSL, _GSS):
                break
            client.sendall(b"N")
        given = [text.decode() for text in body[4:].split(b"\0")]
        for name in given[: len(given) // 2 * 2 : 2]:
            if name and name.lower() not in TRACKED:
                text = f"unsupported startup parameter: {name}"
                client.sendall(_message(b"E", f"SFATAL\0C08P01\0M{text}\0\0".encode()))
                return False
        client.sendall(b"".join(self._welcome()))
        return True

    def _welcome(self) -> Iterator[bytes]:
        yield _message(b"R", struct.pack("!i", 0))
        wire = self._raw[0].pgconn
        for name in _NAMES:
            value = wire.parameter_status(name.encode()) or b""
            yield _message(b"S", name.encode() + b"\0" + value + b"\0")
        yield _message(b"K", struct.pack("!ii", 0, 0))
        yield _message(b"Z", b"I")

    def _relay(self, client: socket.socket) -> None:
        up = Messages(client)
        while True:
            first = up.wait(self)
            number = self._free.get(timeout=WAIT_S)
            wire = socket.socket(fileno=self._raw[number].pgconn.socket)
            try:
                self.transactions += 1
                clean = _one_transaction(up, first, Messages(wire), self)
            finally:
                wire.detach()
            if not clean:
                # The client left in the middle: its transaction must not stay.
                self._replace(number)
            self._free.put(number)
            if not clean:
                return

    def _replace(self, number: int) -> None:
        import psycopg

        old = self._raw[number]
        conninfo = old.info.dsn
        old.close()
        self._raw[number] = psycopg.connect(conninfo, autocommit=True)

    @property
    def closed(self) -> bool:
        return self._closed


class Messages:
    """Whole messages from a socket."""

    def __init__(self, one: socket.socket) -> None:
        self.socket = one
        self._rest = b""

    def wait(self, pooler: Pooler) -> bytes:
        """The next message; Gone at the end of all."""
        while (message := self.next()) is None:
            if pooler.closed:
                raise Gone
            if select.select([self.socket], [], [], LOOK_S)[0]:
                self.take_in()
        return message

    def take_in(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = self.socket.recv(PIECE_BYTES)
            if not data:
                raise Gone
            self._rest += data

    def next(self) -> bytes | None:
        """The next message that is there."""
        if len(self._rest) < 5:
            return None
        end = 1 + int.from_bytes(self._rest[1:5], "big")
        if len(self._rest) < end:
            return None
        message, self._rest = self._rest[:end], self._rest[end:]
        return message


def _one_transaction(up: Messages, first: bytes, down: Messages, pooler: Pooler) -> bool:
    """Pass everything on until the server is idle; False when the client is gone before that."""
    asked = _send_up(first, down.socket)
    if asked is None:
        return True
    while not pooler.closed:
        ready = select.select([up.socket, down.socket], [], [], LOOK_S)[0]
        try:
            if up.socket in ready:
                up.take_in()
            while (message := up.next()) is not None:
                more = _send_up(message, down.socket)
                if more is None:
                    return False
                asked += more
        except (Gone, OSError):
            return False
        if down.socket in ready:
            down.take_in()
        while (message := down.next()) is not None:
            with contextlib.suppress(OSError):
                up.socket.sendall(message)
            if message[:1] == b"Z":
                asked -= 1
                if asked == 0 and message[5:6] == b"I":
                    return True
    return False


def _send_up(message: bytes, server: socket.socket) -> int | None:
    """How many answers will end with "ready" because of it; None for a farewell."""
    if message[:1] == b"X":
        return None
    view = memoryview(message)
    while view:
        select.select([], [server], [], WAIT_S)
        with contextlib.suppress(BlockingIOError):
            view = view[server.send(view) :]
    return int(message[:1] in (b"Q", b"S"))


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _exactly(one: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = one.recv(count - len(data))
        if not piece:
            raise Gone
        data += piece
    return data
