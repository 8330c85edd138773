"""Every command says what it locks before its handler looks at anything."""

from __future__ import annotations

import typing

import pytest

from ledgerstone.backends.postgres_locks import SPECIAL
from ledgerstone.sql.handlers import WRITES


@pytest.mark.parametrize("command", WRITES, ids=lambda command: command.__name__)
def test_a_command_has_a_session_or_a_rule(command: type) -> None:
    """A new command whose locks nobody thought of fails here."""
    if command in SPECIAL:
        return
    hints = typing.get_type_hints(command)
    assert hints.get("session") is str, f"{command.__name__} needs a line in postgres_locks.py"
