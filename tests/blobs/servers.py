"""Real object stores on this machine, from wheels: started in a folder, stopped by their pid.

SeaweedFS does what is needed. `rclone serve s3` looks the same and ignores every condition, so it
is the one that must be refused. Neither is told to call anybody.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

HOST = "127.0.0.1"
BUCKET = "bytes"
WAIT_S = 30.0
TRIES_MAX = 4
# Below the ports that clients get, also with the 10,000 that are added for gRPC.
PORTS = range(12_000, 22_000)
GRPC = 10_000
ROLES = ("master", "volume", "filer", "s3")

KEYS = {
    # name: (access key, secret key, what it may do)
    "worker": ("AKIDWORKER0000000001", "canary-worker-5f1c9a7e", ["Read", "Write", "List"]),
    "reader": ("AKIDREADER0000000002", "canary-reader-0b7d2e44", ["Read", "List"]),
    "putter": ("AKIDPUTTER0000000003", "canary-putter-91aa06c3", ["Write"]),
}
SECRETS = [secret for _, secret, _ in KEYS.values()]


class Server(msgspec.Struct, frozen=True):
    """One that answers."""

    name: str
    port: int
    folder: Path
    admin_port: int = 0
    """Where SeaweedFS shows what it keeps, also what S3 does not show."""

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    def environment(self, who: str = "worker") -> dict[str, str]:
        """What a program needs in its environment to use it."""
        access, secret, _ = KEYS[who]
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": access,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_REGION": "us-east-1",
        }


@contextmanager
def seaweedfs(folder: Path) -> Iterator[Server]:
    """SeaweedFS with one bucket and the three identities above."""
    rights = [
        {
            "name": name,
            "credentials": [{"accessKey": access, "secretKey": secret}],
            "actions": actions,
        }
        for name, (access, secret, actions) in KEYS.items()
    ]
    (folder / "data").mkdir()
    (folder / "s3.json").write_text(json.dumps({"identities": rights}))
    last = ""
    for _ in range(TRIES_MAX):
        master, volume, filer, s3 = free_ports(4)
        command = [
            _program("weed"),
            "server",
            f"-dir={folder / 'data'}",
            f"-ip={HOST}",
            f"-ip.bind={HOST}",
            f"-master.port={master}",
            "-master.telemetry=false",
            "-master.volumeSizeLimitMB=64",
            f"-volume.port={volume}",
            "-volume.max=50",
            "-filer",
            f"-filer.port={filer}",
            f"-filer.localSocket={folder / 'filer.sock'}",
            "-s3",
            f"-s3.port={s3}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            f"-s3.localSocket={folder / 's3.sock'}",
            f"-s3.config={folder / 's3.json'}",
        ]

        def ready(filer: int = filer, s3: int = s3) -> bool:
            made = _answers(f"http://{HOST}:{filer}/buckets/{BUCKET}/", "POST")
            stored = made and _answers(f"http://{HOST}:{filer}/ready", "PUT", b"x")
            return stored and _answers(f"http://{HOST}:{s3}/")

        try:
            with _running(command, folder, ready) as started:
                if started:
                    yield Server("SeaweedFS", s3, folder, filer)
                    return
                last = _tail(folder)
        finally:
            # The one thing that it cannot be told to put elsewhere.
            for role, port in zip(ROLES, (master, volume, filer, s3), strict=True):
                Path(f"/tmp/seaweedfs-{role}-grpc-{port + GRPC}.sock").unlink(missing_ok=True)
    raise AssertionError(f"SeaweedFS does not start: {last}")


@contextmanager
def rclone(folder: Path) -> Iterator[Server]:
    """rclone over a directory with one bucket."""
    (folder / "data" / BUCKET).mkdir(parents=True)
    access, secret, _ = KEYS["worker"]
    last = ""
    for _ in range(TRIES_MAX):
        (port,) = free_ports(1)
        command = [
            _program("rclone"),
            "serve",
            "s3",
            f"--config={os.devnull}",
            f"--cache-dir={folder / 'cache'}",
            f"--addr={HOST}:{port}",
            f"--auth-key={access},{secret}",
            str(folder / "data"),
        ]
        address = f"http://{HOST}:{port}/"
        with _running(command, folder, partial(_answers, address)) as started:
            if not started:
                last = _tail(folder)
                continue
            yield Server("rclone", port, folder)
            return
    raise AssertionError(f"rclone does not start: {last}")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, nor on those 10,000 above them."""
    found: list[int] = []
    for port in random.Random(os.urandom(8)).sample(PORTS, 200):
        if _is_free(port) and _is_free(port + GRPC):
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind((HOST, port))
        except OSError:
            return False
    return True


def _program(name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    assert found, f"{name} is missing: pip install -r requirements/dev.txt"
    return found


@contextmanager
def _running(command: list[str], folder: Path, ready: Callable[[], bool]) -> Iterator[bool]:
    """The process, and whether it came up; it is gone after the block, or with its parent."""
    setpriv = shutil.which("setpriv")
    if setpriv:
        command = [setpriv, "--pdeathsig", "KILL", *command]
    # Neither proxies nor credentials of the tester are for it.
    clean = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "TMPDIR": str(folder)}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=clean, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        end_s = time.monotonic() + WAIT_S
        while process.poll() is None and time.monotonic() < end_s:
            if ready():
                yield True
                return
            time.sleep(0.1)
        yield False
    finally:
        # Not asked politely: it would take ten seconds, and nobody needs what it wrote.
        process.kill()
        process.wait()


def _answers(url: str, method: str = "GET", data: bytes | None = None) -> bool:
    """Whether somebody understands HTTP there: to be refused is an answer as well."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, data=data, method=method)
    try:
        with opener.open(request, timeout=5.0):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return error.code < 500
    except OSError:
        return False


def _tail(folder: Path) -> str:
    return (folder / "log").read_text("utf-8", "replace")[-2000:]
