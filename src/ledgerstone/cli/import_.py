"""`ledgerstone import`: what another library stored, into a store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from ledgerstone import Store
from ledgerstone.adapters.importing.frame import IMPORTERS, run_import
from ledgerstone.cli.failures import CliError
from ledgerstone.cli.options import AsJson, is_server, shown
from ledgerstone.cli.output import plural, print_json, print_line, print_table

EXAMPLE = "Example: ledgerstone import langgraph checkpoints.sqlite agent.db"
_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\Z")

Framework = Enum("Framework", {name: name for name in IMPORTERS}, type=str)  # type: ignore[misc]

From = Annotated[
    Framework,
    typer.Argument(metavar="FRAMEWORK", help=f"One of {', '.join(IMPORTERS)}.", show_default=False),
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="The framework's own database: a SQLite file, or postgresql://host/database.",
        show_default=False,
    ),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", help="The store; made if it is not there.", show_default=False
    ),
]
Whose = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Whose data it becomes.")]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Read and convert everything, and leave the target alone."),
]
SkipUnreadable = Annotated[
    bool,
    typer.Option("--skip-unreadable", help="Leave out what can not be read, and count it."),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="MODULE:CLASS",
        help="A class of yours that may be revived (langgraph); may be repeated.",
        show_default=False,
    ),
]


def run(
    framework: From,
    source: Source,
    target: Target,
    *,
    tenant: Whose = "default",
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
    if not is_server(source) and not Path(re.sub(r"^sqlite(\+\w+)?:///", "", source)).is_file():
        raise CliError(f"{source} is no file, and nothing was created; check the second argument")
    named = [_class(one) for one in allow or ()]
    with _target(target, tenant, dry_run=dry_run) as store:
        done = _import(framework.value, store, source, named, skip_unreadable)
    if as_json:
        print_json({"framework": framework.value, "dry_run": dry_run, **done})
        return
    print_table([name.upper().replace("_", " ") for name in done], [[*map(str, done.values())]])
    if dry_run:
        print_line(f"nothing was written to {shown(target)}: this was a dry run")
        return
    print_line(f"imported {plural(done['sessions'], 'session')} into {shown(target)}", "green")


@contextmanager
def _target(url: str, tenant: str, *, dry_run: bool) -> Iterator[Store]:
    """The store; for a dry run one that is thrown away, so that all the rules are tried."""
    if not dry_run:
        with Store.open(url, tenant=tenant) as store:
            yield store
        return
    with TemporaryDirectory(prefix="ledgerstone-") as folder:
        place = str(Path(folder) / "dry-run.db")
        with Store.open(place, tenant=tenant, durability="process") as store:
            yield store


def _import(
    framework: str, store: Store, source: str, allow: list[tuple[str, str]], skip: bool
) -> dict[str, int]:
    waiting = Console(stderr=True)
    with Progress(console=waiting, transient=True, disable=not waiting.is_terminal) as bar:
        task = bar.add_task("importing", total=None)

        def show(_: str, count: int) -> None:
            bar.update(task, description=plural(count, "session"), completed=count)

        return run_import(
            framework, store, source, progress=show, allow=allow, skip_unreadable=skip
        )


def _class(text: str) -> tuple[str, str]:
    if not _CLASS.match(text):
        raise CliError(f"--allow takes MODULE:CLASS, got {text!r}")
    module, _, name = text.partition(":")
    return module, name


run.__name__ = "import"
