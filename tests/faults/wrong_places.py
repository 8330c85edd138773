"""Places where no store can be opened, each made in a folder of its own.

Whoever opens one gets a typed error whose text names the path and says what to do next, and every
byte that lay there before lies there afterwards.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import msgspec

from ledgerstone import Store, user
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.errors import (
    Corrupt,
    Damaged,
    InvalidValue,
    LedgerstoneError,
    NotADatabase,
    SchemaTooNew,
    Unavailable,
)

SQLITE_PATH_MAX = 512
NEXT_STEPS = re.compile(
    r"\b(restore|upgrade|install|name|give|choose|move|remove|shorten|free|verify|copy|rename)\b"
)


class Place(msgspec.Struct, frozen=True):
    """How to make it, and the errors that fit; `make` answers the path to open.

    `readable`: only writing is refused.
    """

    make: Callable[[Path], Path]
    errors: tuple[type[LedgerstoneError], ...]
    readable: bool = False


def closed_store(path: Path, session: str = "s", text: str = "precious") -> Path:
    with Store.open(path) as store:
        store.messages.append(session, user(text), create=True)
    return path


def log_of(path: Path, session: str = "s", text: str = "precious") -> bytes:
    """The log of a store in which nothing has been moved into the file yet."""
    with Store.open(path) as store:
        store.messages.append(session, user(text), create=True)
        return path.with_name(path.name + "-wal").read_bytes()


def _text(folder: Path) -> Path:
    (folder / "store.db").write_text("Dear diary, this is not a database.\n" * 200)
    return folder / "store.db"


def _other_program(folder: Path) -> Path:
    connection = apsw.Connection(str(folder / "store.db"))
    connection.execute("create table notes (body)")
    connection.close()
    return folder / "store.db"


def _cut(folder: Path) -> Path:
    path = closed_store(folder / "store.db")
    path.write_bytes(path.read_bytes()[:6000])
    return path


def _newer(folder: Path) -> Path:
    path = closed_store(folder / "store.db")
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 99)
    connection.close()
    return path


def _folder(folder: Path) -> Path:
    (folder / "store.db").mkdir()
    return folder / "store.db"


def _below_a_file(folder: Path) -> Path:
    (folder / "file").write_text("x")
    return folder / "file" / "store.db"


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "store.db")
    return folder / "store.db"


def _socket(folder: Path) -> Path:
    # The name of a socket may be 100 bytes long, so it is bound from inside its folder.
    here = Path.cwd()
    os.chdir(folder)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("store.db")
    finally:
        os.chdir(here)
    return folder / "store.db"


def _circle(folder: Path) -> Path:
    (folder / "store.db").symlink_to(folder / "store.db")
    return folder / "store.db"


def _long_name(folder: Path) -> Path:
    return folder / ("x" * 300)


def _long_path(folder: Path) -> Path:
    path = folder
    while len(str(path)) < SQLITE_PATH_MAX:
        path = path / ("y" * 60)
    path.mkdir(parents=True)
    return path / "store.db"


def _lone_surrogate(folder: Path) -> Path:
    return folder / "a\ud800.db"


def _log_beside_an_empty_file(folder: Path) -> Path:
    path = folder / "store.db"
    log = log_of(folder / "first.db")
    (folder / "first.db").unlink()
    path.touch()
    (folder / "store.db-wal").write_bytes(log)
    return path


def _log_without_a_file(folder: Path) -> Path:
    path = _log_beside_an_empty_file(folder)
    path.unlink()
    return path


def _log_of_another(folder: Path) -> Path:
    log = log_of(folder / "other.db", "theirs", "not yours")
    path = closed_store(folder / "store.db")
    (folder / "store.db-wal").write_bytes(log)
    return path


def _folder_as(end: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = closed_store(folder / "store.db")
        (folder / f"store.db{end}").unlink(missing_ok=True)
        (folder / f"store.db{end}").mkdir()
        return path

    return make


PLACES: dict[str, Place] = {
    "a text file": Place(_text, (NotADatabase,)),
    "another program's database": Place(_other_program, (NotADatabase,)),
    "a store cut short": Place(_cut, (Corrupt, NotADatabase)),
    "a newer schema": Place(_newer, (SchemaTooNew,)),
    "a directory": Place(_folder, (InvalidValue,)),
    "below a file": Place(_below_a_file, (InvalidValue,)),
    "a pipe": Place(_pipe, (InvalidValue, NotADatabase, Unavailable)),
    "a socket": Place(_socket, (InvalidValue, NotADatabase, Unavailable)),
    "a circle of links": Place(_circle, (InvalidValue, Unavailable)),
    "a name of 300 characters": Place(_long_name, (InvalidValue,)),
    "a path longer than SQLite takes": Place(_long_path, (InvalidValue,)),
    "a name that is no text": Place(_lone_surrogate, (InvalidValue,)),
    "a log beside an empty file": Place(_log_beside_an_empty_file, (Damaged,)),
    "a log without its file": Place(_log_without_a_file, (Damaged,)),
    "the log of another store": Place(_log_of_another, (Damaged,)),
    "a directory for the lock": Place(_folder_as("-lock"), (InvalidValue, Unavailable)),
    "a directory for the log": Place(_folder_as("-wal"), (InvalidValue, Unavailable, Damaged)),
    "a directory for the index": Place(
        _folder_as("-shm"), (InvalidValue, Unavailable), readable=True
    ),
}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below, with its bytes; the index of a log is made anew at every start."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-lock"))
    }


def judge_opening(place: Place, folder: Path) -> Iterator[str]:
    """What is wrong with the way this place is refused."""
    path = place.make(folder)
    before = contents(folder)
    try:
        with Store(open_sqlite(os.fspath(path))) as store:
            store.messages.append("s", user("more"), create=True)
        yield "it was opened and written to"
    except place.errors as error:
        text = str(error)
        if not any(str(one) in text for one in (path, path.parent)):
            yield f"the path is not named: {type(error).__name__}: {text}"
        if not NEXT_STEPS.search(text.replace(str(folder), "")):
            yield f"no next step: {type(error).__name__}: {text}"
    except Exception as error:
        yield f"{type(error).__name__}: {error}"
    after = contents(folder)
    for name, data in before.items():
        if after.get(name) != data:
            yield f"{name} was changed or is gone"
    for name in after.keys() - before.keys() - {f"{path.name}-wal"}:
        yield f"{name} was left behind"
