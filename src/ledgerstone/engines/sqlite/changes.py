"""Waiting until something was committed to a SQLite file, by this process or by another.

Commits of this process are told at once. Those of others are seen by asking a connection for its
`data_version`, which costs a few microseconds: soon again at first, then ever more rarely.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import apsw

from ledgerstone.clock import monotonic_s
from ledgerstone.engines.changes import Changes
from ledgerstone.engines.sqlite.connection import Reader, mapped

FIRST_PAUSE_S = 0.001
LAST_PAUSE_S = 0.1


class SqliteChanges(Changes):
    """`count` is moved by the writer alone and `_others` by whoever looks: no addition is lost."""

    def __init__(self, connect: Callable[[], Reader], path: str) -> None:
        super().__init__()
        self._connect = connect
        self._path = path
        self._looking = threading.Lock()
        self._tx: Reader | None = None
        self._version = -1
        self._others = 0

    def number(self) -> int:
        return self.count + self._others

    def wait(self, seen: int, timeout_s: float) -> int:
        for pause_s in self._pauses(seen, timeout_s):
            self.pause(seen, pause_s)
        return self.number()

    async def await_(self, seen: int, timeout_s: float) -> int:
        for pause_s in self._pauses(seen, timeout_s):
            await self.apause(seen, pause_s)
        return self.number()

    def close(self) -> None:
        """The connection goes first: the writer's must be the last one on the file."""
        super().close()
        with self._looking:
            if self._tx is not None:
                self._tx.close()
                self._tx = None

    def _pauses(self, seen: int, timeout_s: float) -> Iterator[float]:
        """How long to sleep before each look, until there is something to say.

        The last look comes after the last sleep: a commit of this process is seen by it as well,
        and must not be told a second time when the caller waits again.
        """
        ends_s = monotonic_s() + timeout_s
        pause_s = FIRST_PAUSE_S
        self._look()
        while self._may_sleep(seen) and (left_s := ends_s - monotonic_s()) > 0:
            yield min(pause_s, left_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)
            self._look()

    def _look(self) -> None:
        """Ask whether anybody committed since the last look."""
        with self._looking, mapped(self._path):
            if not self.closed:
                self._compare()

    def _compare(self) -> None:
        if self._tx is None:
            self._tx = self._connect()
            self._tx.set_patience(0)
        try:
            version = self._tx.execute("PRAGMA data_version").get
        except apsw.BusyError:
            return  # The file is locked as a whole for a moment; the next look will tell.
        if version != self._version:
            self._version = version
            self._others += 1
            self._wake_all()
