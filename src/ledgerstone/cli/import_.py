"""`ledgerstone import`: what another library stored, into a store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from ledgerstone import Store
from ledgerstone.adapters.importing.importers import IMPORTERS, Import, prepared
from ledgerstone.adapters.importing.sources import DAMAGED_FILE
from ledgerstone.cli.failures import INTERRUPTED, CliError, explain
from ledgerstone.cli.options import (
    AsJson,
    argument,
    is_server,
    local_path,
    option,
    shown,
    switch,
)
from ledgerstone.cli.output import plural, print_json, print_line, print_table, progress_bar
from ledgerstone.engines.file.urls import is_folder
from ledgerstone.errors import (
    Corrupt,
    InvalidValue,
    LedgerstoneError,
    NotADatabase,
    NotSupported,
)

EXAMPLE = "Example: ledgerstone import langgraph checkpoints.sqlite agent.db"
_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\Z")

Framework = Enum("Framework", {name: name for name in IMPORTERS}, type=str)  # type: ignore[misc]

From = Annotated[Framework, argument("FRAMEWORK", f"One of {', '.join(IMPORTERS)}.")]
Source = Annotated[
    str,
    argument(
        "SOURCE", "The framework's own database: a SQLite file, or postgresql://host/database."
    ),
]
Target = Annotated[str, argument("TARGET", "The store; made if it is not there.")]
Tenant = Annotated[str, option("--tenant", "NAME", "Whose data it becomes.")]
DryRun = Annotated[
    bool, switch("--dry-run", "Read and convert everything, and leave the target alone.")
]
SkipUnreadable = Annotated[
    bool, switch("--skip-unreadable", "Leave out what cannot be read, and count it.")
]
Allow = Annotated[
    list[str] | None,
    option(
        "--allow",
        "MODULE:CLASS",
        "A class of yours that may be revived (langgraph); may be repeated.",
    ),
]


def run(
    framework: From,
    source: Source,
    target: Target,
    *,
    tenant: Tenant = "default",
    allow: Allow = None,
    skip_unreadable: SkipUnreadable = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Bring the sessions of another library into a store.

    The source is only read, and nothing in it is unpickled. What is there already is left as it
    is: an import that was interrupted goes on when it is started again.
    """
    if target.startswith("memory:"):
        raise CliError("memory:// lives inside one process; give a path or a url to import into")
    named = [_class(one) for one in allow or ()]
    work = _prepared(framework.value, source, allow=named, skip_unreadable=skip_unreadable)
    if not dry_run and _is_new(target):
        _rehearse(work, tenant)
    with _target(target, tenant, dry_run=dry_run) as store:
        done = _import(work, store, dry_run=dry_run)
    if as_json:
        print_json({"framework": framework.value, "dry_run": dry_run, **done})
        return
    print_table([name.upper().replace("_", " ") for name in done], [[*done.values()]])
    if dry_run:
        print_line(f"nothing was written to {shown(target)}: this was a dry run")
        return
    print_line(f"imported {plural(done['sessions'], 'session')} into {shown(target)}", "green")


def _prepared(framework: str, source: str, **options: Any) -> Import:
    """The import, refused before the target is touched when the source is none."""
    try:
        return prepared(framework, source, **options)
    except InvalidValue:
        raise  # An option, not the source.
    except LedgerstoneError as error:
        advice = "" if ";" in str(error) else ", check the second argument"
        told = f"{error}; nothing was imported{advice}"
        raise CliError(told, explain(error).exit_code) from error


def _is_new(url: str) -> bool:
    """Whether opening the target would make a file or a folder."""
    path = local_path(url)
    if path is None:
        return False
    if is_folder(url):
        with suppress(OSError):
            return not os.listdir(path)  # noqa: PTH208
    return not os.path.lexists(path)


class _Enough(Exception):
    """A session was imported."""


def _rehearse(work: Import, tenant: str) -> None:
    """Bring one session into a store that is forgotten: a target is made if that can be done."""

    def enough(*_: object) -> None:
        raise _Enough

    with Store.open("memory://", tenant=tenant) as store:
        try:
            work(store, enough)
        except _Enough:
            return
        except (LedgerstoneError, KeyboardInterrupt) as error:
            raise _stopped(error, "nothing was imported") from error


@contextmanager
def _target(url: str, tenant: str, *, dry_run: bool) -> Iterator[Store]:
    """The store; for a dry run one that is thrown away, so that all the rules are tried.

    Files are flushed once, at the end: a power cut before that costs commits that the next run
    makes again. A server decides for itself.
    """
    if dry_run:
        with TemporaryDirectory(prefix="ledgerstone-") as folder:
            place = str(Path(folder) / "dry-run.db")
            with Store.open(place, tenant=tenant, durability="process") as store:
                yield store
        return
    try:
        opened = Store.open(url, tenant=tenant, durability=None if is_server(url) else "process")
    except NotADatabase as error:
        raise CliError(f"{error}; nothing was imported, check the third argument") from error
    try:
        with opened as store:
            yield store
    finally:
        path = local_path(url)
        if path is not None and not is_folder(url):
            _flush(Path(f"{os.path.realpath(path)}-wal"))


def _flush(log: Path) -> None:
    """A log is left only while another process has the store open; else closing has flushed it."""
    if log.exists():
        with log.open("rb+") as file:
            os.fsync(file.fileno())


def _import(work: Import, store: Store, *, dry_run: bool) -> dict[str, int]:
    so_far = 0
    with progress_bar("importing") as bar:

        def show(_: str, count: int) -> None:
            nonlocal so_far
            so_far = count
            bar(plural(count, "session"), count, None)

        try:
            return work(store, show)
        except (LedgerstoneError, KeyboardInterrupt) as error:
            came = f"{plural(so_far, 'session')} came before it"
            rest = " and stay; started again, it goes on there"
            raise _stopped(error, came + ("; this was a dry run" if dry_run else rest)) from error


def _stopped(error: BaseException, rest: str) -> CliError:
    """What a person needs to know of an import that did not come to its end."""
    if not isinstance(error, LedgerstoneError):
        return CliError(f"interrupted; {rest}", INTERRUPTED)
    if isinstance(error, Corrupt) and error.table == DAMAGED_FILE:
        rest += "; no option goes past that: import what `.recover` of sqlite3 makes of the file"
    elif isinstance(error, Corrupt | InvalidValue | NotSupported):
        rest += ", and --skip-unreadable leaves out what cannot be read"
    return CliError(f"{error}; {rest}", explain(error).exit_code)


def _class(text: str) -> tuple[str, str]:
    if not _CLASS.match(text):
        raise CliError(f"--allow takes MODULE:CLASS, got {text!r}")
    module, _, name = text.partition(":")
    return module, name
