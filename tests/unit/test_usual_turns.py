"""One look tells whether a commit has anything that few have."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ledgerstone.commands.turns import CommitTurn, is_usual
from ledgerstone.records.runs import Run
from ledgerstone.records.usage import Usage, UsageEntry

PLAIN = CommitTurn(tenant="t", session="s", turn="x", kind="turn")
OFTEN = {
    "tenant", "session", "turn", "kind", "hash", "guard", "create", "branch", "nodes",
    "missing_parent", "parent_rule", "state", "run", "usage", "complete", "over_budget", "release",
}  # fmt: skip
"""Whoever asks `is_usual` looks at these by itself."""


@pytest.mark.parametrize("name", CommitTurn.__struct_fields__)
def test_every_other_field_makes_it_unusual(name: str) -> None:
    something: Any = ("something",)
    assert is_usual(replace(PLAIN, **{name: something})) is (name in OFTEN)


def test_a_turn_with_a_run_and_uses_is_usual() -> None:
    run, usage = Run(id="r", session="s"), (UsageEntry("m", Usage(1, 2)),)
    assert is_usual(replace(PLAIN, run=run, usage=usage, state={"a": 1}))
