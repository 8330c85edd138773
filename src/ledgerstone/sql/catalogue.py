"""Named statements, loaded from queries/*.sql.

The format stands at the top of queries/sessions.sql. Arguments are bound as numbered parameters,
so one text serves any driver that can number them. Where PostgreSQL needs another text than the
shared one, it stands in queries/postgres/ under the same name; what only one database is asked, in
<dialect>_own/. SQLite is asked nothing else by name (see engines/sqlite).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from ledgerstone.sql.texts import sql_files

_NAME = re.compile(r"-- name: (\w+)\(([\w, ]*)\)\s*$")
_CONDITION = re.compile(r"\s*-- if ([\w, ]+)$")
_ARGUMENT = re.compile(r"(?<![:\w]):(\w+)")
_MARKS = {"sqlite": "?", "postgres": "$"}


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
    mark = _MARKS[dialect]
    found = dict[str, Statement]()
    if dialect == "postgres":
        found = _read("", mark)
        for name, statement in _read(dialect, mark).items():
            if name not in found or found[name].arguments != statement.arguments:
                raise ValueError(f"no shared query {name} has the arguments of that for {dialect}")
            found[name] = statement
    for name, statement in _read(f"{dialect}_own", mark).items():
        if found.setdefault(name, statement) is not statement:
            raise ValueError(f"two queries are named {name}")
    return found


def _read(folder: str, mark: str) -> dict[str, Statement]:
    """The statements of a folder; no name twice."""
    found: dict[str, Statement] = {}
    for _, text in sql_files("queries", folder):
        for statement in parse(text, mark):
            if statement.name in found:
                raise ValueError(f"two queries are named {statement.name}")
            found[statement.name] = statement
    return found


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
