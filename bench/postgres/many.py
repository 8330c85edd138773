"""Very many sessions on PostgreSQL, made of one real session by copying its rows.

The twin of `bench/many.py`: every column comes from the real row, so that this follows the schema.
"""

from __future__ import annotations

from typing import Final

from bench.floor_queue import payload
from bench.many import (
    LATER,
    LATER_S,
    OTHERS,
    SCATTER,
    STEP_US,
    TEMPLATE,
    USER,
)
from bench.postgres.place import url
from bench.postgres.stand import PostgresStand, named
from ledgerstone import Store
from ledgerstone.rules.rows import RECENCY_SHIFT

SCHEMA: Final = "ledgerstone"


def build(stand: PostgresStand, name: str, count: int) -> None:
    """`count` sessions, every second one of the same user, the highest number the newest."""
    with Store.open(url(stand.path(name))) as store:
        draft = store.turns.begin(TEMPLATE, create=True)
        draft.user(stand.work.turn(0).user)
        draft.commit()
    copy_sessions(stand, name, count)
    stand.settle(name)


def build_line(stand: PostgresStand, name: str, count: int) -> None:
    """`count` sessions with work: one batch that is due, and one in LATER that is not yet."""
    with Store.open(url(stand.path(name))) as store:
        store.sessions.create(id=TEMPLATE)
        store.work.enqueue(TEMPLATE, payload(0))
        store.work.enqueue(TEMPLATE, payload(0), queue=LATER, delay_s=LATER_S)
    since = f"case queue when '{LATER}' then due_us else due_us - {count} end"
    due = f"{since} + n::bigint * {SCATTER} % {count}"
    copy_sessions(stand, name, count)
    _copy(stand, name, "work", count, {"number": "number + n"})
    _copy(stand, name, "ready", count, {"number": "number + n", "due_us": due})
    stand.settle(name)


def copy_sessions(stand: PostgresStand, name: str, count: int) -> None:
    ((updated_us,),) = stand.server.fetch(named(name), f"select updated_us from {SCHEMA}.heads")
    changed = f"{updated_us - (count + 1) * STEP_US} + n::bigint * {STEP_US}"
    whose = f"case n % 2 when 0 then '{USER}' else 'user-' || (n % {OTHERS}) end"
    new = {
        "number": "number + n",
        "id": "'many-' || lpad(n::text, 8, '0')",
        "user": whose,
        "created_us": changed,
        "recency": f"({changed}) >> {RECENCY_SHIFT}",
    }
    _copy(stand, name, "sessions", count, new)
    _copy(stand, name, "heads", count, {"number": "number + n", "updated_us": changed})


def _copy(stand: PostgresStand, name: str, table: str, count: int, new: dict[str, str]) -> None:
    """The rows of the template, `count` times, with other values in some columns."""
    found = stand.server.fetch(
        named(name),
        "select column_name from information_schema.columns "
        f"where table_schema = '{SCHEMA}' and table_name = '{table}' order by ordinal_position",
    )
    columns = [column for (column,) in found]
    missing = new.keys() - set(columns)
    if missing:
        raise RuntimeError(f"{table} has no {', '.join(sorted(missing))}")
    values = ", ".join(new.get(column, f'"{column}"') for column in columns)
    names = ", ".join(f'"{column}"' for column in columns)
    stand.server.execute(
        named(name),
        f"insert into {SCHEMA}.{table} ({names}) "
        f"select {values} from generate_series(1, {count}) as counter(n), {SCHEMA}.{table} "
        f"where number = (select number from {SCHEMA}.sessions where id = '{TEMPLATE}')",
    )
