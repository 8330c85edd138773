"""A store of very many sessions, made of one real session by copying its rows.

Only sessions and heads are copied: a list reads nothing else. Every column comes from the real
row, so that this follows the schema, whatever is added to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from bench.work import Turn
from ledgerstone import Store
from ledgerstone.backends.sqlite_connection import connect
from ledgerstone.rules.rows import RECENCY_SHIFT

USER: Final = "ada"
OTHERS: Final = 1000
TEMPLATE: Final = "template"
STEP_US: Final = 2_000_000
"""Between one session's last change and the next one's."""

COUNTER: Final = (
    "with recursive counter(n) as (select 1 union all select n + 1 from counter where n < ?) "
)


def build(path: Path, count: int, turn: Turn) -> None:
    """`count` sessions, every second one of the same user, the highest number the newest."""
    with Store.open(str(path), durability="process") as store:
        draft = store.turns.begin(TEMPLATE, create=True)
        draft.user(turn.user)
        draft.commit()
        base_us = store.sessions.list().items[0].updated_us - (count + 1) * STEP_US
    # As the store itself opens it: its pages may carry checksums that a plain connection breaks.
    connection = connect(str(path))
    connection.execute("pragma synchronous = off")
    changed = f"{base_us} + n * {STEP_US}"
    whose = f"case n % 2 when 0 then '{USER}' else 'user-' || (n % {OTHERS}) end"
    with connection:
        _copy(
            connection,
            "sessions",
            count,
            {
                "number": "number + n",
                "id": "printf('many-%08d', n)",
                "user": whose,
                "created_us": changed,
                "recency": f"({changed}) >> {RECENCY_SHIFT}",
            },
        )
        _copy(connection, "heads", count, {"number": "number + n", "updated_us": changed})
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    connection.close()


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
