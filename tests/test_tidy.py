"""The rules of the house that a machine can check, and for each rule a proof that it bites.

A rule is a function of a path (relative, with slashes) and the text of that file; it yields one
sentence per finding. The samples at the end are fed to the same functions.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "testing", "tests", "bench", "tools", "examples")
THIS_FILE = "tests/test_tidy.py"

FILE_LINES_SOFT = 400
FILE_LINES_HARD = 600
FUNCTION_LINES_HARD = 70
LINE_CHARS_HARD = 100
EMPTY_NAMES = {"utils", "common", "helpers", "base", "manager", "core", "misc"}
REVIVERS = {"pickle", "marshal", "shelve", "dill"}
CLOCK_READS = {
    "time.time",
    "time.time_ns",
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "date.today",
    "datetime.date.today",
}

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
# The names are kept apart from the slash, so that this very line is not a finding.
MACHINE_PATH = re.compile(r"(?<![\w.~])/(?:home|root|Users|opt|srv|work/(?:main|shared))/\w")
HOST_IN_LOCK = re.compile(r"https?://|^\s*--?(i|f|index-url|extra-index-url|find-links)\b")
QUERY_NAME = re.compile(r"^--\s*name:\s*(\w+)", re.MULTILINE)

TESTING = "testing/ledgerstone/testing/"
STEERING = ("src/ledgerstone/engines/sqlite/", "src/ledgerstone/engines/postgres/", TESTING)
"""Who may begin and end transactions."""
GENERATING = tuple(
    f"src/ledgerstone/engines/{engine}{name}.py"
    for engine in ("", "sqlite/", "postgres/")
    for name in ("statements", "schema", "planned/writes", "planned/single")
)
"""Who makes statements from the declarations of tables."""
TRANSACTION = r"PRAGMA|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE"
# In capitals the first word is enough. In small letters those are English words as well, so the
# second word has to give the statement away.
SQL_SHOUTED = re.compile(
    rf"\s*(?:({TRANSACTION}|VACUUM|ANALYZE|REINDEX)\b"
    r"|(SELECT|INSERT|REPLACE|UPDATE|DELETE|CREATE|ALTER|DROP|WITH|ATTACH|EXPLAIN)\s+\S)"
)
SQL_SPOKEN = re.compile(
    r"\s*(?:select\s.+\sfrom\s|insert\s+(or\s+\w+\s+)?into\s|replace\s+into\s|update\s+\w+\s+set\s"
    r"|delete\s+from\s|(create|alter|drop)\s+(\w+\s+)?(table|index|trigger|view)\b"
    r"|with\s+(recursive\s+)?\w+\s*(\([^)]*\))?\s+as\s*\(|pragma\s+\w"
    r"|begin\s+(immediate|deferred|exclusive|transaction)\b|rollback\s+to\s|savepoint\s+\w+\s*$)",
    re.IGNORECASE | re.DOTALL,
)
TRANSACTION_START = re.compile(rf"\s*(?:{TRANSACTION})\b", re.IGNORECASE)

Rule = Callable[[str, str], Iterator[str]]


# --- the rules


def file_length(path: str, text: str) -> Iterator[str]:
    lines = text.count("\n")
    if lines > FILE_LINES_HARD:
        yield f"{path}: {lines} lines, at most {FILE_LINES_HARD}"


def function_length(path: str, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_HARD:
                yield f"{path}:{node.lineno}: {node.name} has {lines} lines"


def line_length(path: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > LINE_CHARS_HARD:
            yield f"{path}:{number}: {len(line)} characters, at most {LINE_CHARS_HARD}"


def module_name(path: str, text: str) -> Iterator[str]:
    for part in PurePosixPath(path).parts:
        if part.removesuffix(".py").removeprefix("test_").lstrip("_") in EMPTY_NAMES:
            yield f"{path}: {part} says nothing about what is inside"


def unfinished(path: str, text: str) -> Iterator[str]:
    if path != THIS_FILE:
        yield from _matching_lines(path, text, UNFINISHED)


def machine_path(path: str, text: str) -> Iterator[str]:
    if path != THIS_FILE:
        yield from _matching_lines(path, text, MACHINE_PATH)


def host_in_lock(path: str, text: str) -> Iterator[str]:
    if path.startswith("requirements/"):
        yield from _matching_lines(path, text, HOST_IN_LOCK)


def sql_in_strings(path: str, text: str) -> Iterator[str]:
    if not path.startswith(("src/ledgerstone/", TESTING)) or path.startswith(GENERATING):
        return
    may_steer = path.startswith(STEERING)
    for node in _string_constants(ast.parse(text)):
        value = str(node.value)
        if not (SQL_SHOUTED.match(value) or SQL_SPOKEN.match(value)):
            continue
        if not (may_steer and TRANSACTION_START.match(value)):
            yield f"{path}:{node.lineno}: SQL belongs into a .sql file: {value.strip()[:40]!r}"


def clock_outside(path: str, text: str) -> Iterator[str]:
    if not path.startswith(("src/", TESTING)) or path == "src/ledgerstone/clock.py":
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in CLOCK_READS:
            yield f"{path}:{node.lineno}: {ast.unparse(node)} outside clock.py"
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            for name in node.names:
                if f"time.{name.name}" in CLOCK_READS:
                    yield f"{path}:{node.lineno}: time.{name.name} outside clock.py"


def object_revival(path: str, text: str) -> Iterator[str]:
    if not path.startswith("src/"):
        return
    for node in ast.walk(ast.parse(text)):
        for name in _imported(node) | _called(node) & {"eval", "exec"}:
            if name.split(".")[0] in REVIVERS | {"eval", "exec"}:
                yield f"{path}:{getattr(node, 'lineno', 0)}: {name} can run what it reads"


def unused_queries(queries: dict[str, str], code: dict[str, str]) -> Iterator[str]:
    """Not a Rule of one file: a query lives in one file and is used in another."""
    words = {
        node.value
        for text in code.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant)
    }
    for path, text in queries.items():
        for name in QUERY_NAME.findall(text):
            if name not in words:
                yield f"{path}: nobody uses the query {name}"


# --- what the rules are made of


def _matching_lines(path: str, text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        found = pattern.search(line)
        if found:
            yield f"{path}:{number}: {found[0].strip()!r}"


def _string_constants(tree: ast.Module) -> Iterator[ast.Constant]:
    """Every string but the docstrings, which are prose."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node


def _imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {name.name for name in node.names}
    if isinstance(node, ast.ImportFrom):
        return {node.module or ""}
    return set()


def _called(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return {node.func.id}
    return set()


# --- the tree


@cache
def tree() -> dict[str, str]:
    """Every text file of the project that git knows or would take, by relative path."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=False)
    names = done.stdout.split("\0") if done.returncode == 0 else _walk()
    files: dict[str, str] = {}
    for name in names:
        path = ROOT / name
        if path.is_file() and name != "LICENSE":
            files[name] = path.read_text(encoding="utf-8", errors="replace")
    return files


def _walk() -> list[str]:
    """The listing for a copy without git: what lies in our own folders."""
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    return [path.relative_to(ROOT).as_posix() for path in found if path.suffix in {".py", ".sql"}]


def python_files() -> dict[str, str]:
    return {
        path: text
        for path, text in tree().items()
        if path.endswith(".py") and path.split("/")[0] in FOLDERS
    }


def below(folders: tuple[str, ...], suffix: str) -> dict[str, str]:
    return {p: t for p, t in tree().items() if p.startswith(folders) and p.endswith(suffix)}


PYTHON_RULES: list[Rule] = [
    function_length,
    line_length,
    module_name,
    unfinished,
    sql_in_strings,
    clock_outside,
    object_revival,
]
TEXT_RULES: list[Rule] = [machine_path, host_in_lock]


@pytest.mark.parametrize("rule", PYTHON_RULES, ids=lambda rule: rule.__name__)
def test_python_is_tidy(rule: Rule) -> None:
    findings = [finding for path, text in python_files().items() for finding in rule(path, text)]
    assert not findings, "\n" + "\n".join(findings)


@pytest.mark.parametrize("rule", TEXT_RULES, ids=lambda rule: rule.__name__)
def test_every_file_is_tidy(rule: Rule) -> None:
    findings = [finding for path, text in tree().items() for finding in rule(path, text)]
    assert not findings, "\n" + "\n".join(findings)


def test_files_are_short() -> None:
    files = python_files()
    findings = [finding for path, text in files.items() for finding in file_length(path, text)]
    soon = [path for path, text in files.items() if text.count("\n") > FILE_LINES_SOFT]
    assert not findings, "\n".join([*findings, f"over {FILE_LINES_SOFT} lines:", *soon])


def test_every_query_is_used() -> None:
    queries = below(("src/ledgerstone/sql/queries/",), ".sql")
    folders = ("sql", "engines")
    code = below(tuple(f"src/ledgerstone/{folder}/" for folder in folders), ".py")
    findings = list(unused_queries(queries, code))
    assert not findings, "\n" + "\n".join(findings)


def test_the_tree_is_not_empty() -> None:
    """A listing that finds nothing would make every rule above pass."""
    assert THIS_FILE in python_files()
    assert any(path.startswith("src/ledgerstone/") for path in python_files())


# --- negative controls: each rule catches its bad sample and lets the good one pass

ANY = "src/ledgerstone/sample.py"
SQLITE = "src/ledgerstone/engines/sqlite/writer.py"

BAD: list[tuple[Rule, str, str]] = [
    (file_length, ANY, "x = 1\n" * (FILE_LINES_HARD + 1)),
    (function_length, ANY, "def f():\n" + "    x = 1\n" * FUNCTION_LINES_HARD),
    (function_length, ANY, "class A:\n  async def f():\n" + "    x = 1\n" * FUNCTION_LINES_HARD),
    (line_length, ANY, "#" * (LINE_CHARS_HARD + 1)),
    (module_name, "src/ledgerstone/utils.py", ""),
    (module_name, "src/ledgerstone/core/turns.py", ""),
    (module_name, "tests/test_helpers.py", ""),
    (module_name, "src/ledgerstone/engines/_base.py", ""),
    (unfinished, ANY, "x = 1  # TODO later"),
    (unfinished, ANY, "raise NotImplementedError"),
    (machine_path, ANY, 'x = "/home/ada/store.db"'),
    (machine_path, "docs/a.md", "see /root/notes"),
    (machine_path, "docs/a.md", "see file://" + "/".join(["", "work", "main", "notes"])),
    (host_in_lock, "requirements/dev.txt", "--index-url https://host/simple"),
    (host_in_lock, "requirements/dev.txt", "--find-links somewhere"),
    (host_in_lock, "requirements/dev.txt", "x @ https://host/x.whl"),
    (sql_in_strings, ANY, 'q = "SELECT 1"'),
    (sql_in_strings, ANY, 'q = "\\n  select id from nodes where x"'),
    (sql_in_strings, ANY, 'q = f"DELETE FROM {table}"'),
    (sql_in_strings, ANY, 'q = "insert or ignore into nodes values (1)"'),
    (sql_in_strings, ANY, 'q = "with recursive path(id) as (select 1)"'),
    (sql_in_strings, ANY, 'q = "BEGIN IMMEDIATE"'),
    (sql_in_strings, ANY, 'q = "pragma synchronous"'),
    (sql_in_strings, ANY, 'q = "create unique index i on t(x)"'),
    (sql_in_strings, SQLITE, 'q = "SELECT 1"'),
    (sql_in_strings, f"{TESTING}faults.py", 'q = "UPDATE heads SET x = 1"'),
    (sql_in_strings, "src/ledgerstone/engines/memory/rows.py", 'q = "SELECT 1"'),
    (clock_outside, ANY, "import time\nx = time.time()"),
    (clock_outside, ANY, "from time import time_ns"),
    (clock_outside, ANY, "import datetime\nx = datetime.datetime.now()"),
    (clock_outside, ANY, "from datetime import datetime\nx = datetime.now(tz=None)"),
    (object_revival, ANY, "import pickle"),
    (object_revival, ANY, "def f():\n    from marshal import loads"),
    (object_revival, ANY, "import os, dill.source"),
    (object_revival, ANY, "x = eval('1')"),
    (object_revival, ANY, "exec('1')"),
]

GOOD: list[tuple[Rule, str, str]] = [
    (file_length, ANY, "x = 1\n" * FILE_LINES_HARD),
    (function_length, ANY, "def f():\n" + "    x = 1\n" * (FUNCTION_LINES_HARD - 1)),
    (line_length, ANY, "é" * LINE_CHARS_HARD),
    (module_name, "src/ledgerstone/turns.py", ""),
    (unfinished, ANY, "todo = 'lower case is a word'"),
    (machine_path, "docs/a.md", "https://example.org/home/ada and ~/work and src/opt/x"),
    (host_in_lock, "requirements/dev.txt", "x==1 \\\n    --hash=sha256:00"),
    (host_in_lock, "docs/a.md", "https://example.org"),
    (sql_in_strings, ANY, '"""Select a row from the table."""'),
    (sql_in_strings, ANY, 'x = ["begin", "commit", "release", "update", "select", "DELETE"]'),
    (sql_in_strings, ANY, 'x = "create a session, or delete one; with care"'),
    (sql_in_strings, SQLITE, 'x = "BEGIN IMMEDIATE", "PRAGMA foreign_keys=ON", f"RELEASE {n}"'),
    (sql_in_strings, "tests/test_sample.py", 'q = "SELECT 1"'),
    (sql_in_strings, "src/ledgerstone/engines/sqlite/statements.py", 'q = "SELECT 1"'),
    (clock_outside, "src/ledgerstone/clock.py", "import time\nx = time.time()"),
    (clock_outside, ANY, "import time\nx = time.monotonic()\ny = '.time.time()'"),
    (clock_outside, "bench/turns.py", "import time\nx = time.time()"),
    (object_revival, ANY, "import re\nx = re.compile('eval')\nself.exec('1')"),
    (object_revival, f"{TESTING}attacks.py", "import pickle"),
]


def _sample_id(value: object) -> str:
    return getattr(value, "__name__", "") if callable(value) else str(value)[:24]


@pytest.mark.parametrize(("rule", "path", "text"), BAD, ids=_sample_id)
def test_a_bad_sample_is_caught(rule: Rule, path: str, text: str) -> None:
    assert list(rule(path, text))


@pytest.mark.parametrize(("rule", "path", "text"), GOOD, ids=_sample_id)
def test_a_good_sample_passes(rule: Rule, path: str, text: str) -> None:
    assert list(rule(path, text)) == []


def test_every_rule_has_a_negative_control() -> None:
    assert {rule for rule, _, _ in BAD} == {*PYTHON_RULES, *TEXT_RULES, file_length}


def test_an_unused_query_is_caught() -> None:
    queries = {"a.sql": "-- name: move_head(x)\nupdate\n\n-- name: lost_query()\nselect 1\n"}
    code = {"a.py": "tx.run('move_head')  # lost_query"}
    assert list(unused_queries(queries, code)) == ["a.sql: nobody uses the query lost_query"]
