"""A store of very many sessions, made of one real session by copying its rows.

Only what the workloads read is copied: sessions and heads, and for a line of waiting sessions
their work. Every column comes from the real row, so that this follows the schema, whatever is added
to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from bench.floor_queue import payload
from bench.work import Turn
from ledgerstone import Store
from ledgerstone.engines.sqlite.connection import connect
from ledgerstone.rules.rows import RECENCY_SHIFT

USER: Final = "ada"
OTHERS: Final = 1000
TEMPLATE: Final = "template"
STEP_US: Final = 2_000_000
"""Between one session's last change and the next one's."""
LATER: Final = "later"
LATER_S: Final = 86_400.0
SCATTER: Final = 7919
"""A prime: its multiples visit every place once, and never the next one."""

COUNTER: Final = (
    "with recursive counter(n) as (select 1 union all select n + 1 from counter where n < ?) "
)


def build(path: Path, count: int, turn: Turn) -> None:
    """`count` sessions, every second one of the same user, the highest number the newest."""
    with Store.open(str(path), durability="process") as store:
        draft = store.turns.begin(TEMPLATE, create=True)
        draft.user(turn.user)
        draft.commit()
    with copying(path) as connection:
        copy_sessions(connection, count)


def build_line(path: Path, count: int) -> None:
    """`count` sessions with work: one batch that is due, and one in LATER that is not yet.

    They stand in the line in no order of their numbers: what is served next is on another page.
    """
    with Store.open(str(path), durability="process") as store:
        store.sessions.create(id=TEMPLATE)
        store.work.enqueue(TEMPLATE, payload(0))
        store.work.enqueue(TEMPLATE, payload(0), queue=LATER, delay_s=LATER_S)
    since = f"case queue when '{LATER}' then due_us else due_us - {count} end"
    due = f"{since} + n * {SCATTER} % {count}"
    with copying(path) as connection:
        copy_sessions(connection, count)
        _copy(connection, "work", count, {"number": "number + n"})
        _copy(connection, "ready", count, {"number": "number + n", "due_us": due})


def first_in_line(count: int) -> str:
    """The id of the session that a worker must get first."""
    return f"many-{min(range(1, count + 1), key=lambda n: n * SCATTER % count):08d}"


@contextmanager
def copying(path: Path) -> Iterator[apsw.Connection]:
    """One transaction, then a file without a log."""
    # As the store itself opens it: its pages may carry checksums that a plain connection breaks.
    connection = connect(str(path))
    connection.execute("pragma synchronous = off")
    with connection:
        yield connection
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    connection.close()


def copy_sessions(connection: apsw.Connection, count: int) -> None:
    (updated_us,) = next(connection.execute("select updated_us from heads"))
    changed = f"{updated_us - (count + 1) * STEP_US} + n * {STEP_US}"
    whose = f"case n % 2 when 0 then '{USER}' else 'user-' || (n % {OTHERS}) end"
    new = {
        "number": "number + n",
        "id": "printf('many-%08d', n)",
        "user": whose,
        "created_us": changed,
        "recency": f"({changed}) >> {RECENCY_SHIFT}",
    }
    _copy(connection, "sessions", count, new)
    _copy(connection, "heads", count, {"number": "number + n", "updated_us": changed})


def newest(count: int, most: int) -> list[str]:
    """The ids that a correct list of the user's newest sessions has."""
    numbers = [n for n in range(count, 0, -1) if n % 2 == 0]
    return [f"many-{n:08d}" for n in numbers[:most]]


def _copy(connection: apsw.Connection, table: str, count: int, new: dict[str, str]) -> None:
    columns = [str(row[1]) for row in connection.execute(f"pragma table_info({table})")]
    missing = new.keys() - set(columns)
    if missing:
        raise RuntimeError(f"{table} has no {', '.join(sorted(missing))}")
    values = ", ".join(new.get(column, column) for column in columns)
    (number,) = next(connection.execute("select number from sessions where id = ?", (TEMPLATE,)))
    connection.execute(
        f"{COUNTER} insert into {table} ({', '.join(columns)}) "
        f"select {values} from counter, {table} where number = ?",
        (count, number),
    )
