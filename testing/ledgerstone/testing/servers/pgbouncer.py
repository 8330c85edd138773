"""PgBouncer in transaction mode in front of a server, where it is installed."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from ledgerstone.clock import monotonic_s
from ledgerstone.testing.servers import install

HOST = "127.0.0.1"
POOL_SIZE = 3
START_S = 20.0
LOOK_S = 0.02
STOP_S = 10.0
CONFIGURATION = """\
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr = {listen}
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
server_round_robin = 1
server_reset_query =
"""


def program() -> str | None:
    """Where it is; None when it is not installed."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/sbin")


@contextmanager
def pgbouncer(url: str) -> Iterator[str]:
    """The same url, through a PgBouncer that runs as long as the block."""
    parts = urlsplit(url)
    with socket.socket() as one:
        one.bind((HOST, 0))
        own = one.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="ledgerstone-pgb-") as made:
        folder = Path(made)
        install.give(folder)
        (folder / "ini").write_text(
            CONFIGURATION.format(
                host=parts.hostname or HOST,
                port=parts.port or 5432,
                user=parts.username or "postgres",
                listen=HOST,
                own=own,
                size=POOL_SIZE,
            )
        )
        (folder / "ini").chmod(0o644)
        found = program()
        assert found is not None
        process = subprocess.Popen(
            [found, "ini"],
            cwd=folder,
            env=install.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **install.as_account(),
        )
        try:
            _wait_until_it_listens(process, own)
            who, at, _ = parts.netloc.rpartition("@")
            yield urlunsplit(parts._replace(netloc=f"{who}{at}{HOST}:{own}"))
        finally:
            process.terminate()
            process.wait(STOP_S)


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int) -> None:
    end_s = monotonic_s() + START_S
    while process.poll() is None and monotonic_s() < end_s:
        try:
            socket.create_connection((HOST, port), 1.0).close()
            return
        except OSError:
            time.sleep(LOOK_S)
    raise install.NoServer("pgbouncer does not start")
