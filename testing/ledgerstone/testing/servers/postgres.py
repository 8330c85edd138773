"""A throwaway PostgreSQL on this machine, that can be stopped, killed, doubled and promoted.

    with PostgresServer() as server:
        url = server.create_database("trial")

It listens on a free port of the loopback and on a socket in its own folder. The superuser is
`postgres` and needs no password; the role LOCKED needs one. Nothing stays behind: the folder and
the processes go with the block, with the interpreter, or with the death of this process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from ledgerstone.clock import monotonic_s
from ledgerstone.testing.servers import install
from ledgerstone.testing.servers.databases import SUPERUSER, DatabaseServer
from ledgerstone.testing.servers.install import NoServer
from ledgerstone.testing.servers.processes import (
    Watcher,
    children,
    forget_segment,
    kill_family,
    lives,
    send,
)

HOST = "127.0.0.1"
ENVIRONMENT = "LEDGERSTONE_TEST_POSTGRES"
LOCKED, PASSWORD = "locked", "canary-postgres-7c1e0d"
STANDBY = "standby"
START_S = 60.0
STOP_S = 60.0
LOOK_S = 0.02
TRIES_MAX = 4
LOG_CHARS = 2000
SOCKET_PATH_CHARS = 70
MEMORY_BYTES = 4 << 30
# Below the ports that clients get.
PORTS = range(22_001, 32_000)

SETTINGS = {
    "listen_addresses": HOST,
    "max_connections": "200",
    # The segments of a killed server lie in its folder and go with it.
    "dynamic_shared_memory_type": "mmap",
    "shared_buffers": "64MB",
    "max_wal_size": "1GB",
    "max_prepared_transactions": "0",
    "log_line_prefix": "%m [%p] ",
    "timezone": "UTC",
    "hot_standby": "on",
}
# For tests of something else than durability. The server still says that it keeps everything, and
# in a folder in memory that costs nothing; {"fsync": "off"} makes one that says it does not.
QUICK = {"autovacuum_naptime": "10s", "checkpoint_timeout": "1h", "max_wal_size": "256MB"}
HBA = f"""\
local all {LOCKED} scram-sha-256
host all {LOCKED} {HOST}/32 scram-sha-256
local all all trust
host all all {HOST}/32 trust
local replication all trust
host replication all {HOST}/32 trust
"""


class PostgresServer(DatabaseServer):
    """One server with a folder of its own; use it as a block, or call start and close."""

    def __init__(self, *, durable: bool = True, settings: Mapping[str, str] | None = None) -> None:
        self._durable = durable
        self._settings = {**SETTINGS, **({} if durable else QUICK), **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: Watcher | None = None
        self._standbys: list[PostgresServer] = []
        self.folder = _new_folder(durable)
        self.data = self.folder / "data"
        self.port = 0
        self._programs: Path | None = None
        self._owner = os.getpid()
        atexit.register(self.close)
        super().__init__("")

    def __repr__(self) -> str:
        return f"<PostgresServer on port {self.port}>"

    @property
    def pid(self) -> int:
        """The process id of the postmaster; 0 when it does not run."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if self._process is not None and running else 0

    def start(self) -> None:
        """Make the folder if there is none yet, and run; answers when connections are taken."""
        if self.pid:
            return
        new = not self.data.exists()
        if new:
            self._initialise()
        for _ in range(1 if self.port else TRIES_MAX):
            port = self.port or _free_port()
            if self._run(port):
                self.port = port
                self._url = f"postgresql://{SUPERUSER}@{HOST}:{port}/postgres"
                break
        else:
            raise NoServer(f"PostgreSQL does not start: {self.log_tail()}")
        if new:
            self._do("create_locked_role", name=LOCKED, password=PASSWORD)

    def stop(self) -> None:
        """Shut down fast: open transactions are rolled back, a checkpoint is written."""
        if self._process is not None and self.pid:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()
                raise NoServer(f"PostgreSQL does not stop: {self.log_tail()}") from None
        self._forget_process()

    def kill(self) -> None:
        """kill -9 of the postmaster and of every process below it: what a power cut leaves."""
        if self._process is not None and self.pid:
            family = children(self._process.pid)
            kill_family(self._process.pid)
            self._process.wait(STOP_S)
            _await_end(family)
        self._forget_process()

    def restart(self, *, hard: bool = False) -> None:
        """Down and up again on the same port; `hard` kills it first."""
        if hard:
            self.kill()
        else:
            self.stop()
        self.start()

    def pause(self) -> None:
        """Stop every process of it where it stands: connected, and silent."""
        for pid in [self.pid, *children(self.pid)] if self.pid else []:
            send(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on."""
        for pid in [*children(self.pid), self.pid] if self.pid else []:
            send(pid, signal.SIGCONT)

    def standby(self, *, synchronous: bool = True) -> PostgresServer:
        """A running copy that follows this one; a synchronous one is waited for by commits."""
        other = PostgresServer(durable=self._durable, settings=self._settings)
        other._programs = self._bin()
        self._standbys.append(other)
        install.run(
            self._bin() / "pg_basebackup",
            *("-D", str(other.data), "-R", "-X", "stream", "-c", "fast", "--no-sync"),
            *("-d", f"{self.url()}?application_name={STANDBY}"),
        )
        other.start()
        _until(lambda: bool(self._do("standbys", STANDBY)), other)
        if synchronous:
            self._do("insist_on_standby", name=STANDBY)
            self._do("reload")
            _until(lambda: self._do("standbys", STANDBY) == [("sync",)], other)
        return other

    def promote(self) -> None:
        """A standby becomes a server that takes writes."""
        install.run(self._bin() / "pg_ctl", "promote", "-w", "-D", str(self.data))
        self._do("forget_standby")
        self._do("reload")

    def socket_url(self, database: str = "postgres") -> str:
        """The address by the socket instead of the port."""
        place = f"host={self.folder}&port={self.port}"
        return f"postgresql://{SUPERUSER}@/{database}?{place}"

    def log_tail(self) -> str:
        """The end of what it wrote, for error messages."""
        path = self.folder / "log"
        return path.read_text("utf-8", "replace")[-LOG_CHARS:] if path.exists() else ""

    def close(self) -> None:
        """End it and remove its folder; again is fine. A forked child may not."""
        if os.getpid() != self._owner:
            return
        for other in self._standbys:
            other.close()
        self._standbys.clear()
        self.kill()
        forget_segment(self.data)
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)

    def __enter__(self) -> PostgresServer:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _bin(self) -> Path:
        if self._programs is None:
            self._programs = install.reachable(install.programs(), self.folder / "programs")
        return self._programs

    def _initialise(self) -> None:
        install.run(
            self._bin() / "initdb",
            *("-D", str(self.data), "-U", SUPERUSER, "-A", "trust", "-E", "UTF8"),
            *("--locale", "C", "--no-sync", "--no-instructions"),
        )
        (self.data / "pg_hba.conf").write_text(HBA)

    def _run(self, port: int) -> bool:
        """Whether it came up on that port."""
        settings = {**self._settings, "port": str(port), "unix_socket_directories": self.folder}
        command = [str(self._bin() / "postgres"), "-D", str(self.data)]
        command += [f"--{name}={value}" for name, value in settings.items()]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=install.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **install.as_account(),
            )
        self._watcher = Watcher(self._process.pid, self.folder)
        end_s = monotonic_s() + START_S
        while self._process.poll() is None and monotonic_s() < end_s:
            if self._is_ready():
                return True
            time.sleep(LOOK_S)
        self.kill()
        return False

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError, IndexError):
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            # One that was killed left such a file as well.
            return lines[0] == str(self.pid) and lines[7].strip() in {"ready", "standby"}
        return False

    def _forget_process(self) -> None:
        if self._watcher is not None:
            self._watcher.dismiss()
        self._watcher = self._process = None


def shared_server() -> DatabaseServer:
    """The server that the environment names, or a quick one started here; close it after use."""
    url = os.environ.get(ENVIRONMENT, "")
    if url:
        server = DatabaseServer(url)
        server.check(ENVIRONMENT)
        return server
    started = PostgresServer(durable=False)
    return started.__enter__()


def _new_folder(durable: bool) -> Path:
    """A folder that the server's account owns, with a path short enough for a socket.

    What need not last lies in memory where there is room: copying a database takes a third there.
    """
    parent = tempfile.gettempdir()
    memory = Path("/dev/shm")
    if not durable and os.access(memory, os.W_OK):
        parent = str(memory) if shutil.disk_usage(memory).free > MEMORY_BYTES else parent
    if len(parent) > SOCKET_PATH_CHARS:
        parent = "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="ledgerstone-pg-", dir=parent))
    install.give(folder)
    return folder


def _free_port() -> int:
    for port in random.Random(os.urandom(8)).sample(PORTS, 100):
        with socket.socket() as one:
            try:
                one.bind((HOST, port))
            except OSError:
                continue
            return port
    raise NoServer("no free port on the loopback")


def _await_end(pids: list[int]) -> None:
    """Wait until processes that were killed are gone; others reap them, so they are looked for."""
    end_s = monotonic_s() + STOP_S
    for pid in pids:
        while lives(pid) and monotonic_s() < end_s:
            time.sleep(LOOK_S / 10)


def _until(holds: Callable[[], bool], server: PostgresServer) -> None:
    end_s = monotonic_s() + START_S
    while not holds():
        if monotonic_s() > end_s:
            raise NoServer(f"the standby does not follow: {server.log_tail()}")
        time.sleep(LOOK_S)
