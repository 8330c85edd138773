"""One connection through the proxy: two sockets, and the pieces on their way between them."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections import deque
from typing import TYPE_CHECKING

from ledgerstone.testing.servers.wire import Requests

if TYPE_CHECKING:
    from ledgerstone.testing.servers.proxy import Trap

PIECE_BYTES = 1 << 16
CONNECT_S = 5.0
NEVER_S = float("inf")
# Closing with this sends a reset instead of a farewell.
_ABRUPT = struct.pack("ii", 1, 0)


class Lane:
    """Pieces in one direction, each with the time at which it arrives; b"" is the end."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[float, bytes]] = deque()
        self.blocked = False

    def put(self, data: bytes, due_s: float) -> None:
        self._pieces.append((due_s, data))

    def next_due_s(self) -> float:
        """When to look again; a blocked lane is looked at when its socket has room."""
        return NEVER_S if self.blocked or not self._pieces else self._pieces[0][0]

    def send_due(self, target: socket.socket, now_s: float) -> bool:
        """Send what has arrived; False after the end of it, or when nobody takes it any more."""
        while self._pieces and self._pieces[0][0] <= now_s:
            due_s, data = self._pieces[0]
            if not data:
                return False
            try:
                sent = target.send(data)
            except BlockingIOError:
                self.blocked = True
                return True
            except OSError:
                return False
            self._pieces.popleft()
            if sent < len(data):
                self._pieces.appendleft((due_s, data[sent:]))
        self.blocked = False
        return True


class Link:
    """A client and, once connected, its server."""

    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self.server: socket.socket | None = None
        self.up, self.down = Lane(), Lane()
        self.requests = Requests()
        self.trap: Trap | None = None
        self.is_open = True
        self.lost_bytes = False
        self._ended: set[socket.socket] = set()
        self._client_spoke = False
        _prepare(client)

    def connect(self, target: tuple[str, int]) -> bool:
        """Whether the server is there."""
        try:
            self.server = socket.create_connection(target, CONNECT_S)
        except OSError:
            return False
        _prepare(self.server)
        return True

    @property
    def sockets(self) -> list[socket.socket]:
        return [one for one in (self.client, self.server) if one is not None]

    def readable(self) -> list[socket.socket]:
        """Those that may still say something."""
        return [one for one in self.sockets if one not in self._ended]

    def writable(self) -> list[socket.socket]:
        """Those that had no room when they were last written to."""
        lanes = ((self.up, self.server), (self.down, self.client))
        return [one for lane, one in lanes if lane.blocked and one is not None]

    def next_due_s(self) -> float:
        return min(self.up.next_due_s(), self.down.next_due_s())

    def client_speaks(self) -> bool:
        """Whether the other one had the word."""
        first, self._client_spoke = not self._client_spoke, True
        return first

    def server_speaks(self) -> None:
        self._client_spoke = False

    def take(self, source: socket.socket) -> bytes:
        """What came from one of the two; b"" when it is gone."""
        try:
            data = source.recv(PIECE_BYTES)
        except OSError:
            data = b""
        if not data:
            self._ended.add(source)
        return data

    def lose(self, data: bytes) -> None:
        """Bytes that nobody gets; when one side has gone there is nothing left to keep."""
        self.lost_bytes = True
        if not data:
            self.reset()

    def send_due(self, now_s: float) -> None:
        going = self.server is None or self.up.send_due(self.server, now_s)
        if not (going and self.down.send_due(self.client, now_s)):
            self.close()

    def deliver(self) -> None:
        """All that waits for the server is sent at once, and it will read it: there is an end."""
        if self.server is not None:
            self.up.send_due(self.server, NEVER_S)
            self.server.close()
            self.server = None

    def reset(self) -> None:
        """End both sides without a farewell."""
        for one in self.sockets:
            with contextlib.suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABRUPT)
        self.close()

    def close(self) -> None:
        self.is_open = False
        for one in self.sockets:
            one.close()


def _prepare(one: socket.socket) -> None:
    one.setblocking(False)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
