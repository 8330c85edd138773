"""The options that verbs share, and the store they lead to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeAlias
from urllib.parse import unquote

import typer

from ledgerstone import Store
from ledgerstone.cli.failures import CliError
from ledgerstone.engines.file.urls import folder_path, is_folder
from ledgerstone.engines.postgres.drivers.urls import parse_target

ENVIRONMENT = "LEDGERSTONE_STORE"
BLOBS_ENVIRONMENT = "LEDGERSTONE_BLOBS"
NAMED = f"--store or {ENVIRONMENT}"
STORE_MARK = "store.json"
SERVERS = ("postgresql://", "postgres://")

StoreUrl: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        envvar=ENVIRONMENT,
        help="The store: a path, sqlite:///path, file:///directory or postgresql://host/database.",
        show_default=False,
    ),
]
BlobsUrl: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--blobs",
        metavar="URL",
        envvar=BLOBS_ENVIRONMENT,
        help="Where its bytes are, when it was opened with `blobs=`.",
        show_default=False,
    ),
]
Tenant: TypeAlias = Annotated[
    str, typer.Option("--tenant", metavar="NAME", help="Whose data to read.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", help="Do it without being asked.")]
SessionId: TypeAlias = Annotated[
    str, typer.Argument(metavar="SESSION", help="The id of the session.", show_default=False)
]


@contextmanager
def reading(
    url: str | None,
    tenant: str | None,
    blobs: str | None = None,
    *,
    named: str = NAMED,
) -> Iterator[Store]:
    """An existing store, opened to be read: nothing is written. `named`: who said which.

    A place that `blobs` names is entered and proved at once, so it is for verbs that touch bytes.
    """
    check_there(url, named)
    with Store.open(str(url), tenant=tenant, blobs=blobs or None, read_only=True) as store:
        yield store


@contextmanager
def writing(
    url: str | None, tenant: str | None, blobs: str | None = None, *, accept_loss: bool = False
) -> Iterator[Store]:
    """An existing store, opened to be written; none is created, and no schema is migrated."""
    check_there(url, NAMED, accept_loss=accept_loss)
    with Store.open(
        unchanged(str(url)), tenant=tenant, blobs=blobs or None, accept_loss=accept_loss
    ) as store:
        yield store


def check_there(url: str | None, named: str, *, accept_loss: bool = False) -> None:
    """CliError when the url leads to no store; `named` says who gave it."""
    if not url:
        raise CliError(f"no store: give --store URL or set {ENVIRONMENT}")
    if url.startswith("memory:"):
        raise CliError("memory:// lives inside one process; give the path of a file with --store")
    try:
        trouble = _trouble(url)
    except OSError as error:
        trouble = f"{url}: {error.strerror}"
    if trouble and not accept_loss:
        raise CliError(f"{trouble}, and nothing was created; check {named}")


def confirm(question: str, *, yes: bool) -> None:
    """Ask the person at the terminal; CliError when the answer is no, or nobody can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CliError("no terminal to ask for confirmation, and nothing was done; add --yes")
    if not typer.confirm(question, err=True):
        raise CliError("nothing was done")


def given(context: typer.Context, name: str) -> Any:
    """An option that may stand before the word of a sub-verb or after it; what was typed wins."""
    for place in (context, context.parent):
        if place is not None:
            source = place.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE":
                return place.params[name]
    return context.params[name]


def is_server(url: str) -> bool:
    """Whether a url leads to a database server."""
    return url.startswith(SERVERS)


def unchanged(url: str) -> str:
    """The url for who only looks: no schema is made or migrated by that."""
    if not is_server(url) or "migrate=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}migrate=no"


def shown(url: str) -> str:
    """The url as it may stand on a screen: a password does not."""
    if not is_server(url):
        return url
    return parse_target(url).shown


def _trouble(url: str) -> str:
    """Why there is no store at a url; empty when there may be one."""
    if is_folder(url):
        folder = Path(folder_path(url))
        if not folder.is_dir():
            return f"{folder} is a file" if folder.exists() else f"{folder} does not exist"
        return f"{folder} is empty" if not any(folder.iterdir()) else ""
    path = local_path(url)
    if path is None or path.is_file():
        return ""
    if not path.is_dir():
        return f"{path} does not exist"
    hint = f" (a store of journals is opened as file:{'//' if path.is_absolute() else ''}{path})"
    return f"{path} is a directory" + (hint if (path / STORE_MARK).exists() else "")


def local_path(url: str) -> Path | None:
    """The file a url names; None when it names none, and opening it will say why."""
    if url.startswith(("postgresql:", "postgres:", "postgresql//", "postgres//")):
        return None
    if url.startswith("sqlite:///"):
        return Path(unquote(url.removeprefix("sqlite:///")))
    return None if ":/" in url and "://" in url else Path(url)
