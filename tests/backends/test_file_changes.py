"""What a transaction changed: one entry per row, nothing for what ends as it began."""

from __future__ import annotations

import pytest

from ledgerstone.engines.file.changes import BY_NUMBER, DERIVED, homes, rows_fields
from ledgerstone.engines.file.lines import STORE, Line
from ledgerstone.engines.file.recovery import _bare
from ledgerstone.engines.file.homes import IN_STORE, LOOSE, SHARED
from tests.oracle.model.state import Change, State
from tests.oracle.model.tables import ABSENT


@pytest.fixture
def state() -> State:
    made = State()
    made.branches.place((1, "a"), 1)
    made.branches.place((1, "b"), 2)
    made.begin()
    return made


def test_each_row_is_told_once_as_it_was_and_as_it_is(state: State) -> None:
    state.branches.update((1, "a"), 5)
    state.branches.update((1, "a"), 6)
    state.branches.delete((1, "b"))
    state.branches.insert((1, "c"), 3)
    assert state.changes() == [
        Change("branches", (1, "a"), 1, 6),
        Change("branches", (1, "b"), 2, ABSENT),
        Change("branches", (1, "c"), ABSENT, 3),
    ]


def test_what_ends_as_it_began_is_no_change(state: State) -> None:
    state.branches.update((1, "a"), 9)
    state.branches.update((1, "a"), 1)
    state.branches.delete((1, "b"))
    state.branches.insert((1, "b"), 2)
    state.branches.insert((1, "c"), 3)
    state.branches.delete((1, "c"))
    assert state.changes() == []


def test_taken_back_and_made_again(state: State) -> None:
    state.branches.update((1, "a"), 6)
    state.branches.delete((1, "b"))
    state.branches.insert((1, "c"), 3)
    changes = state.changes()
    state.rollback()
    assert dict(state.branches.scan()) == {(1, "a"): 1, (1, "b"): 2}
    for _ in range(2):
        state.apply(changes)
        assert dict(state.branches.scan()) == {(1, "a"): 6, (1, "c"): 3}
        assert state.branches.last((1,)) == 3


def test_every_table_has_its_place_in_a_line() -> None:
    """A table that nobody writes down would be lost at the next opening."""
    written = {*BY_NUMBER, *SHARED, *DERIVED, "sessions", "counters"}
    assert written == set(State().tables())
    assert len(BY_NUMBER) + len(SHARED) + len(DERIVED) + 2 == len(written)
    fields = set(Line.__struct_fields__)
    assert {name for name in written - set(DERIVED) if name not in fields} == {"sessions", "heads"}
    assert {"row", "head"} <= fields


def test_loose_rows_belong_to_their_session_if_there_is_one(state: State) -> None:
    rows = [
        Change("attachments", ("t", "s", "a"), ABSENT, None),
        Change("artifacts", ("t", "s:s", 1), ABSENT, None),
        Change("evidence", ("t", "s", "trace", 1), ABSENT, None),
    ]
    others = [Change("artifacts", ("t", scope, 1), ABSENT, None) for scope in ("u:s", "t:", "s:t")]
    assert [change.table for change in rows] == list(LOOSE)
    assert homes(state, rows) == {STORE}
    state.sessions.place(("t", "s"), _bare(7))
    assert homes(state, rows) == {7}
    assert homes(state, others) == {STORE}


def test_rows_are_written_where_they_belong(state: State) -> None:
    state.branches.update((1, "a"), 6)
    assert homes(state, state.changes()) == {1}
    assert homes(state, [Change("stubs", ("t", "s"), ABSENT, None)]) == {STORE}
    assert homes(state, [Change("attachments", ("t", "s", "a"), ABSENT, None)]) == {STORE}
    assert homes(state, [Change("counters", ("session", 0), 1, 2)]) == set()
    for table in IN_STORE:
        assert homes(state, [Change(table, ("t", "s"), ABSENT, None)]) == {STORE}
    for table in DERIVED:
        assert homes(state, [Change(table, (1, "s"), ABSENT, None)]) == set()
    assert homes(state, [Change("counters", ("work", 7), 1, 2)]) == {7}
    assert rows_fields(state.changes()) == {"branches": (("a", 6),)}
    assert rows_fields([Change("branches", (1, "a"), 1, ABSENT)]) == {
        "gone": {"branches": [("a",)]}
    }
