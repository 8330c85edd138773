"""Ways to make a handler fail at its n-th statement, and any code at its n-th instruction."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

from ledgerstone.handlers.registry import Handler
from ledgerstone.tables.transaction import Tx

Make = Callable[[], BaseException]


class Steps:
    """Raises at the n-th step, before or after it was done."""

    def __init__(self, at: int, error: Make, *, after: bool) -> None:
        self._at = at
        self._error = error
        self._after = after
        self.count = 0

    def before(self) -> None:
        self.count += 1
        if self.count == self._at and not self._after:
            raise self._error()

    def after(self) -> None:
        if self.count == self._at:
            raise self._error()


class FailingRows:
    """Rows whose n-th look raises; each look is a statement, or is answered from what is known."""

    def __init__(self, inner: Any, steps: Steps) -> None:
        self._inner = inner
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._inner, name)
        if name not in LOOKS:
            return real

        async def look(*arguments: Any) -> Any:
            self._steps.before()
            answer = await real(*arguments)
            self._steps.after()
            return answer

        return look


LOOKS = ("load", "load_many", "find", "range", "last_serial")


class Trap:
    """Replaces a handler: a command that fits fails at look `at`; all others go through."""

    def __init__(
        self, handler: Handler[Any, Any], fits: Callable[[Any], bool], error: Make, *, after: bool
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
        steps = Steps(self.at, self._error, after=self._after)
        rows: Any = tx.rows
        failing: Any = FailingRows(rows, steps)
        tx.rows, self.sprung = failing, False
        try:
            return await self._handler(tx, command)
        finally:
            tx.rows = rows
            self.sprung = steps.count >= self.at


class WritingTrap:
    """Replaces how a writer carries out statements: the n-th of a group fails."""

    def __init__(self, rows: Any, error: Make, *, after: bool) -> None:
        self._rows, self._execute, self._run = rows, rows._execute, rows._run
        self._error = error
        self._after = after
        self.steps = Steps(0, error, after=after)
        rows._execute = lambda *given: self._step(self._execute, *given)
        rows._run = self._run_many

    def set(self, at: int) -> None:
        """Let statement `at` from now fail; 0: none."""
        self.steps = Steps(at, self._error, after=self._after)

    def _run_many(self, text: str, values: list[Any]) -> None:
        """One statement for many rows; the others come by `_execute`."""
        if len(values) == 1:
            self._run(text, values)
        else:
            self._step(self._run, text, values)

    def _step(self, work: Callable[..., Any], *given: Any) -> Any:
        self.steps.before()
        answer = work(*given)
        try:
            self.steps.after()
        except BaseException:
            del answer  # A cursor in the traceback would keep its statement open.
            raise
        return answer


class FailingStatements:
    """A connection whose n-th statement raises, before or after it was carried out."""

    def __init__(self, inner: Any, steps: Steps) -> None:
        self._inner = inner
        self._steps = steps

    async def fetch(self, text: str, arguments: Any) -> Any:
        self._steps.before()
        answer = await self._inner.fetch(text, arguments)
        self._steps.after()
        return answer


class StatementTrap:
    """Replaces a handler on PostgreSQL: a command that fits fails at statement `at`, of those that
    its handler asks for and those that carry out its writes; all others go through."""

    def __init__(
        self, handler: Handler[Any, Any], fits: Callable[[Any], bool], error: Make, *, after: bool
    ) -> None:
        self._handler = handler
        self._fits = fits
        self._error = error
        self._after = after
        self._steps = Steps(0, error, after=after)
        self.at = 0

    @property
    def sprung(self) -> bool:
        return self._steps.count >= self.at

    async def __call__(self, tx: Tx, command: Any) -> Any:
        rows: Any = tx.rows
        if self.at and self._fits(command) and not isinstance(rows.asking, FailingStatements):
            self._steps = Steps(self.at, self._error, after=self._after)
            rows.asking = FailingStatements(rows.asking, self._steps)
        return await self._handler(tx, command)


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
