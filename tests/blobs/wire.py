"""A wire between a client and a server that can be cut, or lose what the server answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

HOST = "127.0.0.1"
PIECE = 65_536


class Wire:
    """Forwards connections to a port of this machine."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._ears = socket.create_server((HOST, 0))
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.answers_to_lose = 0
        self.lost = 0
        self.is_cut = False
        self._start(self._listen)

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self._ears.getsockname()[1]}"

    def cut(self) -> None:
        """From here on nobody gets through, nor do those who had."""
        self.is_cut = True
        with self._lock:
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        with suppress(OSError):
            self._ears.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join()
        self._ears.close()
        for one in self._open:
            one.close()

    def _start(self, target: Callable[..., object], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._ears.accept()
            except OSError:
                return
            if self.is_cut:
                client.close()
                continue
            server = socket.create_connection((HOST, self._to))
            with self._lock:
                self._open += [client, server]
            self._start(self._forward, client, server)
            self._start(self._answer, server, client)

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(PIECE):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _answer(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(PIECE):
                if self.answers_to_lose > 0:
                    self.answers_to_lose -= 1
                    self.lost += 1
                    break
                sink.sendall(data)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextmanager
def wire_to(port: int) -> Iterator[Wire]:
    wire = Wire(port)
    try:
        yield wire
    finally:
        wire.close()
