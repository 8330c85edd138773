"""The one writer of a process: commands that arrive together share one COMMIT.

Whoever holds the lock carries out everything that waits. A blocking caller does it in its own
thread when nobody else is at it; async callers hand their commands to one thread. While a group
is being flushed to disk, the next one gathers; nobody waits for a group to fill.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import apsw

from ledgerstone.clock import Clock
from ledgerstone.commands import Command
from ledgerstone.engines.sqlite.connection import (
    BUSY_TIMEOUT_MS,
    FOREIGN,
    damage_under,
    from_driver,
    translate,
)
from ledgerstone.engines.sqlite.entry import Entry, check_main, renew
from ledgerstone.engines.sqlite.names import FileNames
from ledgerstone.engines.sqlite.table_buffer import KeyTaken, NotTaken
from ledgerstone.engines.sqlite.writing import WritingRows
from ledgerstone.errors import (
    BackendError,
    Busy,
    Damaged,
    InvalidValue,
    LedgerstoneError,
    OutcomeUnknown,
    StoreClosed,
    Unavailable,
)
from ledgerstone.handlers.registry import HANDLERS
from ledgerstone.tables.transaction import Tx
from ledgerstone.trampoline import run_now

if TYPE_CHECKING:
    import asyncio

GROUP_MAX = 256
CHECKPOINT_PAGES = 4000
CROWDED_FACTOR = 2
RESTART_WAIT_MS = 200
Tell = Callable[[], None]


class QueuedCommand:
    """One command on its way to disk."""

    __slots__ = ("answer", "command", "done", "error", "future", "loop")

    def __init__(self, command: Command[Any]) -> None:
        self.command = command
        self.done = False
        self.answer: Any = None
        self.error: BaseException | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.future: asyncio.Future[Any] | None = None

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.answer


class Writer:
    """Carries out commands in groups, on one connection."""

    def __init__(
        self, connection: apsw.Connection, clock: Clock, entry: Entry, names: FileNames, tell: Tell
    ) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._rows = WritingRows(connection)
        self._path = entry.path
        self._clock = clock
        self._entry = entry
        self._turn = entry.turn
        self._names = names
        self._lock = threading.Lock()
        self._accepting = threading.Lock()
        self._waiting: deque[QueuedCommand] = deque()
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._caller: asyncio.AbstractEventLoop | None = None
        self._poison: str | None = None
        self.lost_its_files = False
        self._pages = 0
        self._checkpoint_at = CHECKPOINT_PAGES
        self._tell = tell
        self.closed = False
        connection.set_wal_hook(self._count_pages)

    def write(self, command: Command[Any]) -> Any:
        """Carry out one command, and whatever else waits, in the caller's thread."""
        job = QueuedCommand(command)
        self._accept(job)
        try:
            with self._lock:
                while not job.done:
                    self._run_group()
        except BaseException:
            self._withdraw(job)
            raise
        return job.result()

    async def awrite(self, command: Command[Any]) -> Any:
        """Hand one command to the writer thread; cancelling the wait does not touch it."""
        import asyncio  # Here: a blocking program is open before asyncio would be imported.

        job = QueuedCommand(command)
        loop = job.loop = asyncio.get_running_loop()
        future = job.future = loop.create_future()
        self._accept(job, serve=True)
        if self._caller is not loop:
            # At the end of this round of the loop: all that its tasks send by then is one group.
            self._caller = loop
            loop.call_soon(self._call_writer)
        return await future

    def _call_writer(self) -> None:
        self._caller = None
        self._wake.put(True)

    def run_alone(self, work: Callable[[apsw.Connection], Any]) -> Any:
        """Use the connection while no group is under way."""
        with self._lock:
            return work(self._connection)

    def lost(self) -> str | None:
        """What happened to the files under this handle; None when they are where they were."""
        with self._lock:
            return self._gone()

    def close(self) -> None:
        """Finish what was accepted, then close the connection."""
        with self._accepting:
            self.closed = True
        thread = self._thread
        if thread is not None:
            self._wake.put(False)
            thread.join()
        with self._lock:
            try:
                while self._waiting:
                    self._run_group()
            finally:
                # Only a store that is closed on purpose tidies its log away, and only its own.
                self._entry.end(self._connection, tidy=self._gone() is None and not self._poison)

    def _accept(self, job: QueuedCommand, *, serve: bool = False) -> None:
        # A lock of its own: an event loop must not wait here for a group's flush to disk.
        with self._accepting:
            if self.closed:
                raise StoreClosed(f"the store {self._path} is closed")
            if serve and self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, name="ledgerstone-writer", daemon=True
                )
                self._thread.start()
            self._waiting.append(job)

    def _withdraw(self, job: QueuedCommand) -> None:
        """An interrupted caller's command that nobody began is not carried out later."""
        with suppress(ValueError):
            self._waiting.remove(job)

    def _serve(self) -> None:
        while self._wake.get():
            # One call stands for everything that waits, even for more than one group.
            while self._waiting:
                # Whatever was raised, everybody in that group was told; the next must be served.
                with suppress(BaseException), self._lock:
                    self._run_group()

    def _run_group(self) -> None:
        """Everything that waits now, up to a bound: one transaction, then all answers."""
        group: list[QueuedCommand] = []
        try:
            self._gather(group)
            if group:
                self._commit_group(group)
        finally:
            # Nobody may wait for ever, whatever was raised in here (Ctrl-C included).
            for job in group:
                if not job.done:
                    job.error = OutcomeUnknown("the writer was interrupted")
                    job.done = True
            _deliver(group)
        if self._pages >= self._checkpoint_at and not self.lost_its_files:
            self._checkpoint()

    def _gather(self, group: list[QueuedCommand]) -> None:
        waiting = self._waiting
        while waiting and len(group) < GROUP_MAX:
            # First in, then out: between the two a Ctrl-C must not lose somebody's command.
            if not waiting[0].done:
                group.append(waiting[0])
            waiting.popleft()

    def _commit_group(self, group: list[QueuedCommand]) -> None:
        if self._poison is not None:
            _fail(group, Unavailable(self._poison))
            return
        if (gone := self._gone()) is not None:
            _fail(group, Unavailable(gone))
            return
        changed = ending = False
        refused: NotTaken | None = None
        try:
            if not self._turn.acquire(BUSY_TIMEOUT_MS / 1000):
                _fail(group, Busy(f"another process is writing to {self._path}; try again"))
                return
            self._entry.catch_up(self._connection)
            # A Ctrl-C that came while BEGIN waited is raised right after it: still in here.
            self._execute("BEGIN IMMEDIATE")
            changed = self._run_jobs(group)
            ending = True
            self._execute("COMMIT" if changed else "ROLLBACK")
            self._rows.ended()
        except NotTaken as error:
            self._undo()
            refused = error
        except BaseException as error:
            undone = self._undo()
            if isinstance(error, apsw.Error):
                _fail(group, self._judge(error, ending), cause=error)
                return
            if undone or not ending:
                _fail(group, Unavailable("interrupted before the commit; nothing was written"))
                raise
            # The interrupt came right after the COMMIT: the answers stand.
            _succeed(group)
            raise
        finally:
            self._turn.release()
        if refused is not None:
            self._run_apart(group, refused)
            return
        if changed and (gone := self._gone()) is not None:
            # It is in a file, but perhaps in one that nobody will ever find again.
            _fail(group, OutcomeUnknown(gone))
            return
        _succeed(group)

    def _run_apart(self, group: list[QueuedCommand], refused: NotTaken) -> None:
        """Values of somebody were refused: a transaction for each, to see whose they are."""
        if len(group) == 1:
            cause = refused.__cause__ or BackendError("sqlite", "what must be new is there already")
            _fail(group, self._foreign(cause) if isinstance(cause, FOREIGN) else cause)
            return
        for job in group:
            self._commit_group([job])

    def _gone(self) -> str | None:
        """Nothing is acknowledged into a file without a name, and nothing is moved out of it."""
        gone = self._names.gone()
        if gone is not None:
            self._poison, self.lost_its_files = gone, True
        return gone

    def _undo(self) -> bool:
        """Roll back what is open; nothing is trusted any more when even that fails."""
        self._rows.forget()
        if not self._connection.in_transaction:
            return False
        try:
            self._execute("ROLLBACK")
        except apsw.Error as error:
            self._poison = f"rolling back failed ({error}); close the store and open it again"
        return True

    def _judge(self, error: apsw.Error, ending: bool) -> LedgerstoneError:
        """What a failed group is told. After a failed write or sync the handle is poisoned.

        When the flush of a COMMIT fails, its frames may stand in the log and come back with the
        next recovery: whether the group is durable is not known.
        """
        if isinstance(error, apsw.IOError):
            self._poison = f"writing failed ({error}); close the store and open it again"
            if ending:
                return OutcomeUnknown(f"the commit could not be flushed: {error}")
        return translate(error, self._path)

    def _run_jobs(self, group: list[QueuedCommand]) -> bool:
        """Whether anything was written."""
        try:
            return self._run_all(group, strict=False)
        except KeyTaken:
            # Somebody's id is there already: once more, and everybody looks first.
            self._rows.forget()
            self._execute("ROLLBACK")
            self._execute("BEGIN IMMEDIATE")
            return self._run_all(group, strict=True)

    def _run_all(self, group: list[QueuedCommand], *, strict: bool) -> bool:
        self._rows.begin()
        now_us = self._clock.now_us()  # Not earlier: a lease may end while we wait for the lock.
        changed = False
        for job in group:
            changed |= self._run_job(job, now_us, strict=strict)
        self._rows.flush_all()
        return changed

    def _run_job(self, job: QueuedCommand, now_us: int, *, strict: bool) -> bool:
        """Whether the command wrote anything; what it raised becomes its own answer."""
        job.answer = job.error = None
        try:
            tx = self._handle(job, now_us, strict=strict)
        except (NotTaken, apsw.Error):
            raise  # It may be of other rows, or the disk or the file is at fault.
        except Exception as error:
            job.error = self._own_error(error, job.command, now_us)
            return False
        self._rows.take(tx)
        return tx.changed

    def _handle(self, job: QueuedCommand, now_us: int, *, strict: bool) -> Tx:
        """Let the handler decide; what it refuses on an assumption it has to decide once more."""
        command = job.command
        handler = HANDLERS[type(command)]
        tx = Tx(self._rows, now_us, strict=strict)
        try:
            job.answer = run_now(handler(tx, command))
        except (NotTaken, apsw.Error):
            raise
        except Exception:
            if not tx.assumed:
                raise
            tx = Tx(self._rows, now_us, strict=True)
            job.answer = run_now(handler(tx, command))
        return tx

    def _own_error(self, error: Exception, command: Command[Any], now_us: int) -> Exception:
        """What a command is told that its handler, or its values, failed with."""
        if isinstance(error, LedgerstoneError):
            return error
        if isinstance(error, FOREIGN):
            return self._foreign(error)
        self._rows.flush_all()  # The look below has to find what waits.
        return damage_under(self._connection, command, now_us) or error

    def _foreign(self, error: Exception) -> LedgerstoneError:
        """What came from the driver, or from encoding a value, as one of ours."""
        if isinstance(error, UnicodeEncodeError):
            return InvalidValue("text", f"lone surrogates are only allowed in bodies: {error}")
        found = from_driver(error, self._path)
        found.__cause__ = error
        return found

    def _count_pages(self, connection: apsw.Connection, name: str, pages: int) -> int:
        if pages < self._pages:
            self._checkpoint_at = CHECKPOINT_PAGES  # The log began anew.
        self._pages = pages
        self._tell()  # Here: a command that wrote nothing makes no page, and wakes nobody.
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """After the answers went out: move the log into the file, as far as readers allow.

        Readers that take turns can keep a log from ever beginning anew; when it has grown for long,
        wait a moment until none of them looks into it.
        """
        self._checkpoint_at = self._pages + CHECKPOINT_PAGES
        crowded = self._pages >= CROWDED_FACTOR * CHECKPOINT_PAGES
        mode = apsw.SQLITE_CHECKPOINT_RESTART if crowded else apsw.SQLITE_CHECKPOINT_PASSIVE
        self._connection.set_busy_timeout(RESTART_WAIT_MS)
        try:
            with self._entry.taking_turns(RESTART_WAIT_MS / 1000):
                check_main(self._connection, self._path, self._entry.vfs)
                renew(self._connection, mode)
        except (Busy, apsw.BusyError, apsw.LockedError, apsw.FullError):
            return  # Others are at it, or there is no space: a later group asks again.
        except (apsw.Error, Damaged) as error:
            self._poison = f"checkpoint failed ({error}); close the store and open it again"
        finally:
            self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)


def _fail(group: list[QueuedCommand], error: BaseException, cause: Exception | None = None) -> None:
    """A transaction that fails fails for everyone in it."""
    if cause is not None:
        error.__cause__ = cause
    for job in group:
        if job.error is None:
            job.error = error
        job.done = True


def _succeed(group: list[QueuedCommand]) -> None:
    for job in group:
        job.done = True


def _deliver(group: list[QueuedCommand]) -> None:
    """Wake all async waiters of one loop with one call."""
    loops: dict[asyncio.AbstractEventLoop, list[QueuedCommand]] = {}
    for job in group:
        if job.loop is not None:
            loops.setdefault(job.loop, []).append(job)
    for loop, jobs in loops.items():
        try:
            loop.call_soon_threadsafe(_answer, jobs)
        except RuntimeError:
            continue  # The loop is closed, so nobody is left to be told; the commit stands.


def _answer(jobs: list[QueuedCommand]) -> None:
    for job in jobs:
        future = job.future
        if future is None or future.done():
            continue
        if job.error is not None:
            future.set_exception(job.error)
        else:
            future.set_result(job.answer)
