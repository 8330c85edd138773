"""The options that verbs share, and the store they lead to."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from ledgerstone import Session, Store
from ledgerstone.cli.failures import CliError
from ledgerstone.cli.output import visible
from ledgerstone.connect import split_url
from ledgerstone.engines.file.urls import is_folder
from ledgerstone.engines.postgres.drivers.urls import parse_target
from ledgerstone.errors import SessionNotFound

ENVIRONMENT = "LEDGERSTONE_STORE"
BLOBS_ENVIRONMENT = "LEDGERSTONE_BLOBS"
NAMED = f"--store or {ENVIRONMENT}"
NO_STORE = f"no store: give --store URL or set {ENVIRONMENT}"
STORE_MARK = "store.json"
SERVERS = ("postgresql://", "postgres://")


def option(flag: str, metavar: str | None, text: str, **more: Any) -> Any:
    """An option that takes a value."""
    return typer.Option(flag, metavar=metavar, help=text, **more)


def switch(flag: str, text: str) -> Any:
    """An option that is there or not."""
    return typer.Option(flag, help=text)


def argument(metavar: str, text: str) -> Any:
    """A word without a flag."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


StoreUrl: TypeAlias = Annotated[
    str | None,
    option(
        "--store",
        "URL",
        "The store: a path, sqlite:///path, file:///directory or postgresql://host/database.",
        envvar=ENVIRONMENT,
    ),
]
BlobsUrl: TypeAlias = Annotated[
    str | None,
    option(
        "--blobs",
        "URL",
        "Where its bytes are, when it was opened with `blobs=`.",
        envvar=BLOBS_ENVIRONMENT,
    ),
]
Tenant: TypeAlias = Annotated[str, option("--tenant", "NAME", "Whose data to read.")]
OneTenant: TypeAlias = Annotated[
    str | None, option("--tenant", "NAME", "Only this tenant.", show_default="all tenants")
]
SessionId: TypeAlias = Annotated[str, argument("SESSION", "The id of the session.")]
MaybeSession: TypeAlias = Annotated[str | None, argument("[SESSION]", "Only of this session.")]
OfSession: TypeAlias = Annotated[str | None, option("--session", "ID", "Only of this session.")]
OfUser: TypeAlias = Annotated[str | None, option("--user", "ID", "Only of this user's sessions.")]
Limit: TypeAlias = Annotated[int, option("--limit", "N", "At most so many, up to 200.")]
Cursor: TypeAlias = Annotated[str | None, option("--cursor", "TEXT", "Go on where a page ended.")]
AsJson: TypeAlias = Annotated[bool, switch("--json", "Print JSON for programs.")]
Yes: TypeAlias = Annotated[bool, switch("--yes", "Do it without being asked.")]

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(\d{1,9})([smhdw])")


def seconds(text: str, option: str = "--older-than") -> int:
    """A span as people write it; CliError for anything else."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise CliError(f"{option} {visible(text)!r} is no time; write 90s, 15m, 1h, 7d or 2w")
    return int(match[1]) * SECONDS[match[2]]


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


def find_session(store: Store, id: str) -> Session:
    """The session; SessionNotFound."""
    found = store.sessions.get(id)
    if found is None:
        raise SessionNotFound(id)
    return found


def server_url(url: str | None, otherwise: str) -> str:
    """The url of a server; CliError, which says `otherwise`, for any other store."""
    if not url:
        raise CliError(NO_STORE)
    if not is_server(url):
        raise CliError(otherwise)
    return url


def check_there(url: str | None, named: str, *, accept_loss: bool = False) -> None:
    """CliError when the url leads to no store; `named` says who gave it."""
    if not url:
        raise CliError(NO_STORE)
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
    if not typer.confirm(visible(question), err=True):
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


def local_path(url: str) -> Path | None:
    """The file or folder that a store is kept in; None for any other store. InvalidValue."""
    scheme, path = split_url(url)
    return Path(path) if scheme in ("sqlite", "file") else None


def _trouble(url: str) -> str:
    """Why there is no store at a url; empty when there may be one."""
    path = local_path(url)
    if path is None:
        return ""
    if is_folder(url):
        if not path.is_dir():
            return f"{path} is a file" if path.exists() else f"{path} does not exist"
        return f"{path} is empty" if not any(path.iterdir()) else ""
    if path.is_file():
        return ""
    if not path.is_dir():
        return f"{path} does not exist"
    hint = f" (a store of journals is opened as file:{'//' if path.is_absolute() else ''}{path})"
    return f"{path} is a directory" + (hint if (path / STORE_MARK).exists() else "")
