"""Ways to make a handler fail at its n-th statement, and any code at its n-th instruction."""

from __future__ import annotations

import dis
import sys
from collections.abc import Awaitable, Callable, Iterable
from types import CodeType, FrameType
from typing import Any

from ledgerstone.sql.handlers import Handler
from ledgerstone.sql.tx import Row, Tx

Make = Callable[[], BaseException]


class FailingTx:
    """A transaction whose n-th statement raises, before or after it was carried out."""

    def __init__(self, inner: Tx, at: int, error: Make, *, after: bool) -> None:
        self._inner = inner
        self._at = at
        self._error = error
        self._after = after
        self.count = 0
        self.now_us = inner.now_us
        self.seals = inner.seals

    async def _step(self, work: Awaitable[Any]) -> Any:
        self.count += 1
        if self.count == self._at and not self._after:
            work.close()  # type: ignore[attr-defined]
            raise self._error()
        answer = await work
        if self.count == self._at:
            raise self._error()
        return answer

    async def one(self, query: str, *arguments: Any) -> Row | None:
        return await self._step(self._inner.one(query, *arguments))

    async def all(self, query: str, *arguments: Any) -> list[Row]:
        return await self._step(self._inner.all(query, *arguments))

    async def run(self, query: str, *arguments: Any) -> int:
        return await self._step(self._inner.run(query, *arguments))

    async def many(self, query: str, rows: Iterable[Row]) -> int:
        return await self._step(self._inner.many(query, rows))

    async def among(self, query: str, values: list[str], *arguments: Any) -> list[Row]:
        return await self._step(self._inner.among(query, values, *arguments))

    async def pick(self, query: str, **given: Any) -> list[Row]:
        return await self._step(self._inner.pick(query, **given))


class Trap:
    """Replaces a handler: a command that fits fails at statement `at`; all others go through."""

    def __init__(
        self, handler: Handler, fits: Callable[[Any], bool], error: Make, *, after: bool
    ) -> None:
        self._handler = handler
        self._fits = fits
        self._error = error
        self._after = after
        self.at = 0
        self.sprung = False

    async def __call__(self, tx: Tx, command: Any) -> Any:
        if not self.at or not self._fits(command):
            return await self._handler(tx, command)
        failing = FailingTx(tx, self.at, self._error, after=self._after)
        self.sprung = False
        try:
            return await self._handler(failing, command)
        finally:
            self.sprung = failing.count >= self.at


class Interrupter:
    """Raises KeyboardInterrupt at the n-th place where the interpreter would look for a signal.

    CPython looks after a call has returned and when a loop goes back, so those are the places;
    only code of the given files counts.
    """

    def __init__(self, files: Iterable[str], at: int) -> None:
        self._files = tuple(files)
        self._at = at
        self._count = 0
        self._last: dict[FrameType, str] = {}
        self.where = ""

    def __enter__(self) -> Interrupter:
        sys.settrace(self._enter)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)
        self._last.clear()

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.endswith(self._files):
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "opcode":
            last = self._last.get(frame, "")
            now = self._last[frame] = _name(frame.f_code, frame.f_lasti)
            if last.startswith("CALL") or now.startswith("JUMP_BACKWARD"):
                self._count += 1
                if self._count == self._at:
                    self.where = f"{frame.f_code.co_qualname} line {frame.f_lineno}"
                    sys.settrace(None)
                    raise KeyboardInterrupt
        elif event == "return":
            self._last.pop(frame, None)
        return self._step


_names: dict[CodeType, dict[int, str]] = {}


def _name(code: CodeType, offset: int) -> str:
    names = _names.get(code)
    if names is None:
        names = _names[code] = {one.offset: one.opname for one in dis.get_instructions(code)}
    return names.get(offset, "")
