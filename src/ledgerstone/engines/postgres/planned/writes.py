"""How each section is written: one SQL text over rows `u`, wherever a call carries these.

Groups travel in three flat arrays that the functions of the database read; in their texts, a name
in braces stands for the rows of a section.
"""

from __future__ import annotations

import re
from functools import cache

from ledgerstone.engines.postgres.planned.sections import (
    CHANGED_RUNS,
    COMPLETED_CLAIMS,
    COUNTED_WORK,
    DROPPED_DRAFTS,
    ENDED_BATCHES,
    KEPT_NOTES,
    MOVED_HEADS,
    MOVED_SESSIONS,
    NEW_DOCUMENTS,
    NEW_NODES,
    NEW_NOTES,
    NEW_RUNS,
    NEW_TURNS,
    NEW_VALUES,
    NEW_WORK,
    RAISED_LINES,
    SECTIONS,
    SETTLED_LINES,
    USED_DAYS,
    Section,
)
from ledgerstone.engines.postgres.statements import tenant_column
from ledgerstone.sql.catalogue import parse
from ledgerstone.sql.texts import sql_files

_POSITION = """u.r + (
    select (cast(cast(pg_current_xact_id() as text) as bigint) + s.value) * 1048576
    from store s where s.name = 'feed.base')"""
"""The place of a turn in the feed, as ledger_pos() gives it: the call is the whole transaction."""
_TEXTS = {one.name: one.text for one in parse(dict(sql_files("planned"))["writes.sql"], "$")}
SETTLE_IN_PLACE = _TEXTS["settle_in_place"]


def _insert(section: Section, end: str = "", **more: str) -> str:
    values = {tenant_column(section.table): "u.whose", **more}
    values |= {name: f"u.{name}" for name in section.columns}
    return (
        f"insert into {section.table.name} as t ({', '.join(values)})\n"
        f"  select {', '.join(values.values())}\n  from {{rows}} u{end}"
    )


def _key(section: Section) -> list[str]:
    """The columns of the key; the halves of a packed one are one."""
    key = section.table.key
    return ["key", *key[2:]] if section.table.packed else [*key]


def _others(section: Section) -> list[str]:
    return [name for name in section.columns if name not in _key(section)]


def _on_conflict(section: Section, change: str) -> str:
    """The row, or the change of the one that is there; `{}` is each column."""
    changes = ", ".join([change.replace("{}", name) for name in _others(section)])
    return _insert(section, f"\n  on conflict ({', '.join(_key(section))}) do update set {changes}")


def _put(section: Section) -> str:
    return _on_conflict(section, "{} = excluded.{}")


def _add(section: Section) -> str:
    return _on_conflict(section, "{} = ledger_sum(t.{}, excluded.{})")


def _keep(section: Section) -> str:
    """The row that is there stays; of several in one call, the first."""
    key = ", ".join(_key(section))
    return _insert(section, f"\n  order by u.r on conflict ({key}) do nothing")


def _update(section: Section) -> str:
    """Rows that are there. By another collation their tenant is compared, but not looked up."""
    changes = ", ".join([f"{name} = u.{name}" for name in _others(section)])
    same = " and ".join([f"t.{name} = u.{name}" for name in _key(section)])
    return (
        f"update {section.table.name} t set {changes}\n  from {{rows}} u\n"
        f'  where {same} and t.{tenant_column(section.table)} = u.whose collate "POSIX"'
    )


WRITES: dict[Section, str] = {
    MOVED_HEADS: _update(MOVED_HEADS),
    NEW_NODES: _insert(NEW_NODES),
    NEW_TURNS: _insert(NEW_TURNS, pos=_POSITION),
    NEW_RUNS: _put(NEW_RUNS),
    USED_DAYS: _add(USED_DAYS),
    CHANGED_RUNS: _update(CHANGED_RUNS),
    MOVED_SESSIONS: _update(MOVED_SESSIONS),
    NEW_VALUES: _keep(NEW_VALUES),
    NEW_DOCUMENTS: _put(NEW_DOCUMENTS),
    NEW_NOTES: _put(NEW_NOTES),
    KEPT_NOTES: _keep(KEPT_NOTES),
    DROPPED_DRAFTS: _TEXTS["drop_drafts"],
    NEW_WORK: _insert(NEW_WORK),
    RAISED_LINES: _insert(RAISED_LINES, f"\n  {_TEXTS['raise_lines']}"),
    COMPLETED_CLAIMS: _TEXTS["complete_claims"],
    ENDED_BATCHES: _insert(ENDED_BATCHES),
    COUNTED_WORK: _add(COUNTED_WORK),
    SETTLED_LINES: _TEXTS["settle_lines"],
}
"""The statement of each section; `{rows}` is where its rows `u` come from. Besides the columns of
the section these have `whose`, the tenant, and `r`, their number from 0."""


def columns_of(section: Section, whole: str, text: str, blob: str) -> str:
    """All columns, from arrays; `{}` is which of its kind the column is."""
    kinds = ((whole, section.ints), (text, section.texts), (blob, section.blobs))
    found = [(form, n, name) for form, names in kinds for n, name in enumerate(names, start=1)]
    return ", ".join([f"{form.format(n)} as {name}" for form, n, name in found if form])


_JUDGED = ("ints[x.i + {}]", "texts[x.t + {}]", "")
"""Where the columns are that a plan is judged by."""
_WRITTEN = (*_JUDGED[:2], "bytes[x.b + {}]")


def _rows(section: Section, places: tuple[str, str, str], condition: str = "") -> str:
    """The rows of a section in the arrays of a call (functions/postgres/apply.sql)."""
    at = 4 * SECTIONS.index(section) + 5
    begins = [f"at[{at + 1}] + r * {len(section.ints) + 1} + 1 as i"]
    begins += [f"at[{at + 2}] + r * {len(section.texts)} as t"] if section.texts else []
    begins += [f"at[{at + 3}] + r * {len(section.blobs)} as b"] if section.blobs else []
    return (
        "(select texts[ints[x.i] * 4 - 3] as whose, ints[x.i] as place, x.r,\n"
        f"      {columns_of(section, *places)}\n    from (select r, {', '.join(begins)}\n"
        f"      from generate_series(0, at[{at}] - 1) r offset 0) x{condition})"
    )


def _write(section: Section) -> str:
    rows = _rows(section, _WRITTEN, " where words[ints[x.i]] = 'ok'")
    text = WRITES[section].replace("{rows}", rows)
    return f"  if at[{4 * SECTIONS.index(section) + 5}] > 0 then\n  {text};\n  end if;\n"


_COMMANDS = """(
      select n, ints[n * 5 - 4] as number, ints[n * 5 - 3] as version, ints[n * 5 - 2] as live,
        ints[n * 5 - 1] as flags, ints[n * 5] as planned_us, texts[n * 4 - 3] as tenant,
        texts[n * 4 - 2] as session, texts[n * 4 - 1] as turn, texts[n * 4] as run
      from generate_series(1, at[1]) n)"""


def with_rows(text: str) -> str:
    """A text of functions/postgres, with rows and writes in place of their names."""
    return re.sub(r"\{(\w+)\}", lambda found: _named().get(found[1], found[0]), text)


@cache
def _named() -> dict[str, str]:
    return {
        "commands": _COMMANDS,
        "often": "".join([_write(one) for one in SECTIONS if one.often]),
        "rarely": "".join([_write(one) for one in SECTIONS if not one.often]),
        **{section.name: _rows(section, _JUDGED) for section in SECTIONS},
    }
