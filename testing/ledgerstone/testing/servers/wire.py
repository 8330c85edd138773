"""Just enough of PostgreSQL's protocol to see which statements a client sends."""

from __future__ import annotations

_LENGTH = 4
# In place of a version: the client asks whether it may encrypt before it begins.
_QUESTIONS = (80877103, 80877104)
_QUERY, _PARSE, _BIND = b"Q", b"P", b"B"


class Requests:
    """The requests of one client, read from its bytes as they come."""

    def __init__(self) -> None:
        self._rest = b""
        self._started = False
        self._texts: dict[bytes, bytes] = {}

    def feed(self, data: bytes) -> list[bytes]:
        """What these bytes ask to have executed: each the text of the statement and what is bound.

        A request counts when its last byte is there. A statement that was prepared earlier is found
        by its text as well as by what is bound now.
        """
        self._rest += data
        found = []
        while (message := self._next()) is not None:
            kind, body = message
            if kind == _PARSE:
                name, _, rest = body.partition(b"\0")
                self._texts[name] = rest.partition(b"\0")[0]
            elif kind == _QUERY:
                found.append(body)
            elif kind == _BIND:
                name = body.partition(b"\0")[2].partition(b"\0")[0]
                found.append(self._texts.get(name, b"") + b"\0" + body)
        return found

    def _next(self) -> tuple[bytes, bytes] | None:
        """Kind and body of the first whole message, taken from the rest."""
        head = 1 if self._started else 0
        if len(self._rest) < head + _LENGTH:
            return None
        end = head + int.from_bytes(self._rest[head : head + _LENGTH], "big")
        if len(self._rest) < end:
            return None
        kind, body = self._rest[:head], self._rest[head + _LENGTH : end]
        self._rest = self._rest[end:]
        if not self._started:
            self._started = int.from_bytes(body[:4], "big") not in _QUESTIONS
        return kind, body
