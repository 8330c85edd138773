"""Every command says what it locks before its handler looks at anything."""

from __future__ import annotations

import typing

import pytest

from ledgerstone.commands import Command
from ledgerstone.commands.leases import RaiseFences
from ledgerstone.commands.sessions import (
    CopySession,
    CreateSession,
    GetOrCreateSession,
    PurgeSession,
    PutSession,
)
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.engines.postgres.locks import FLOOR, SPECIAL, locks_of
from ledgerstone.handlers.all import HANDLERS
from ledgerstone.records.sessions import Session

WRITES = [kind for kind in HANDLERS if issubclass(kind, Command)]
NEW = Session(id="s")
MAKERS: list[Command[typing.Any]] = [
    CreateSession(tenant="t", session=NEW),
    PutSession(tenant="t", session=NEW),
    GetOrCreateSession(tenant="t", session=NEW),
    CopySession(tenant="t", source="o", target=NEW, turn="c", whole=True),
    CommitTurn(tenant="t", session="s", turn="c", kind="append", create=NEW),
    PurgeSession(tenant="t", id="s"),
]


@pytest.mark.parametrize("command", WRITES, ids=lambda command: command.__name__)
def test_a_command_has_a_session_or_a_rule(command: type) -> None:
    """A new command whose locks nobody thought of fails here."""
    if command in SPECIAL:
        return
    hints = typing.get_type_hints(command)
    assert hints.get("session") is str, f"{command.__name__} needs a line in postgres_locks.py"


@pytest.mark.parametrize("command", MAKERS, ids=lambda command: type(command).__name__)
def test_whoever_makes_or_purges_a_session_holds_where_fences_begin(
    command: Command[typing.Any],
) -> None:
    """Else one could begin below a fence that is raised at that moment, after a restore."""
    assert FLOOR in locks_of(command).shared
    assert locks_of(RaiseFences(tenant="t", jump=1)).alone == [FLOOR]
