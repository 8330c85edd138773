"""Named statements, loaded from queries/*.sql.

Each statement follows a line `-- name: query(arguments)` and a sentence that says what it does.
Arguments are written :argument and bound as numbered parameters, in the order of that list. A line
that ends in `-- if x, y` belongs to the statement only when x and y are given, one that ends in
`-- on postgres` only to that database's. {session} stands for all columns of a session's row, s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from ledgerstone.sql.texts import sql_files
from ledgerstone.tables.sessions import SESSIONS

_NAME = re.compile(r"-- name: (\w+)\(([\w, ]*)\)\s*$")
_CONDITION = re.compile(r"\s*-- if ([\w, ]+)$")
_DIALECT = re.compile(r"\s*-- on (\w+)$")
_ARGUMENT = re.compile(r"(?<![:\w]):(\w+)")
_MARKS = {"sqlite": "?", "postgres": "$"}
_SESSION = ", ".join(f's."{name}"' for name in SESSIONS.columns)


class Statement:
    """One named statement and the variants its conditional lines give."""

    def __init__(
        self, name: str, arguments: tuple[str, ...], lines: list[str], mark: str = "?"
    ) -> None:
        self.name = name
        self._mark = mark
        self.arguments = arguments
        self._lines = [_conditional(line) for line in lines]
        self._variants: dict[frozenset[str], tuple[str, tuple[str, ...]]] = {}
        self._check()
        self.text = "" if self.has_conditions else self.variant(frozenset(arguments))[0]

    @property
    def has_conditions(self) -> bool:
        return any(needs for needs, _ in self._lines)

    def variant(self, given: frozenset[str]) -> tuple[str, tuple[str, ...]]:
        """The text for the given arguments, and those it binds, in order."""
        found = self._variants.get(given)
        if found is None:
            text = "\n".join(line for needs, line in self._lines if needs <= given)
            bound = self.arguments
            if self.has_conditions:
                used = set(_ARGUMENT.findall(text))
                bound = tuple(name for name in self.arguments if name in used)
            place = {name: f"{self._mark}{n}" for n, name in enumerate(bound, start=1)}
            text = _ARGUMENT.sub(lambda match: place[match[1]], text)
            found = self._variants[given] = (text, bound)
        return found

    def variant_of(self, given: dict[str, Any]) -> tuple[str, tuple[Any, ...]]:
        """The text for arguments by name, and what it binds; what is None is not given."""
        text, bound = self.variant(frozenset(n for n, value in given.items() if value is not None))
        return text, tuple(given[name] for name in bound)

    def _check(self) -> None:
        used = {name for _, line in self._lines for name in _ARGUMENT.findall(line)}
        needed = {name for needs, _ in self._lines for name in needs}
        if used | needed != set(self.arguments):
            odd = (used | needed) ^ set(self.arguments)
            raise ValueError(f"query {self.name}: arguments and text disagree on {sorted(odd)}")


def _conditional(line: str) -> tuple[frozenset[str], str]:
    match = _CONDITION.search(line)
    if match is None:
        return frozenset(), line
    return frozenset(name.strip() for name in match[1].split(",")), line[: match.start()]


@cache
def load(dialect: str) -> dict[str, Statement]:
    """Every statement that this database is asked by name."""
    found: dict[str, Statement] = {}
    for _, text in (*sql_files("queries", "shared"), *sql_files("queries", f"{dialect}_own")):
        for statement in parse(_of_dialect(text, dialect), _MARKS[dialect]):
            if found.setdefault(statement.name, statement) is not statement:
                raise ValueError(f"two queries are named {statement.name}")
    return found


def _of_dialect(text: str, dialect: str) -> str:
    """The lines of a text that are meant for a database."""
    text = text.replace("{session}", _SESSION)
    parts = [(line, _DIALECT.search(line)) for line in text.splitlines()]
    return "\n".join(
        line if of is None else line[: of.start()]
        for line, of in parts
        if of is None or of[1] == dialect
    )


def parse(text: str, mark: str = "?") -> Iterator[Statement]:
    """The statements of one file."""
    name, arguments, lines = "", tuple[str, ...](), list[str]()
    for line in text.splitlines():
        match = _NAME.match(line)
        if match is not None:
            if name:
                yield Statement(name, arguments, lines, mark)
            name, lines = match[1], []
            arguments = tuple(part.strip() for part in match[2].split(",") if part.strip())
        elif name and line.strip() and not line.startswith("--"):
            lines.append(line)
    if name:
        yield Statement(name, arguments, lines, mark)
