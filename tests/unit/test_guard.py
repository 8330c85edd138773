"""The one rule of ownership (contract D9), as the table it is."""

from __future__ import annotations

import itertools

import pytest

from ledgerstone.commands import FREE, Guard
from ledgerstone.errors import (
    Fenced,
    IncarnationMoved,
    LeaseExpired,
    LeaseHeld,
    LedgerstoneError,
    RevisionMoved,
    SessionDeleted,
)
from ledgerstone.rules.guard import check_alive, check_fence, check_guard, is_live
from ledgerstone.rules.rows import HeadRow

NOW = 1_000

NEVER = HeadRow(1)
LIVE = HeadRow(1, fence=5, owner="ada", token="t5", expires_us=NOW + 1, revision=7)
EXPIRED = HeadRow(1, fence=5, owner="ada", token="t5", expires_us=NOW, revision=7)
RELEASED = HeadRow(1, fence=5, revision=7)

NONE = FREE
CURRENT = Guard(5, "t5")
STOLEN = Guard(5, "t4")
OLDER = Guard(4, "t4")
NEWER = Guard(6, "t6")
NO_TOKEN = Guard(5, None)

# head, guard -> what the caller must react to
TABLE: list[tuple[str, HeadRow, str, Guard, type[LedgerstoneError] | None]] = [
    ("never held", NEVER, "no fence", NONE, None),
    ("never held", NEVER, "some fence", OLDER, Fenced),
    ("live", LIVE, "no fence", NONE, LeaseHeld),
    ("live", LIVE, "current", CURRENT, None),
    ("live", LIVE, "same fence, other token", STOLEN, Fenced),
    ("live", LIVE, "same fence, no token", NO_TOKEN, Fenced),
    ("live", LIVE, "older", OLDER, Fenced),
    ("live", LIVE, "newer", NEWER, Fenced),
    ("expired", EXPIRED, "no fence", NONE, None),
    ("expired", EXPIRED, "current", CURRENT, LeaseExpired),
    ("expired", EXPIRED, "same fence, other token", STOLEN, Fenced),
    ("expired", EXPIRED, "older", OLDER, Fenced),
    ("expired", EXPIRED, "newer", NEWER, Fenced),
    ("released", RELEASED, "no fence", NONE, None),
    ("released", RELEASED, "the last one", CURRENT, LeaseExpired),
    ("released", RELEASED, "older", OLDER, Fenced),
    ("released", RELEASED, "newer", NEWER, Fenced),
]


@pytest.mark.parametrize(
    ("head", "guard", "error"),
    [pytest.param(row[1], row[3], row[4], id=f"{row[0]}: {row[2]}") for row in TABLE],
)
def test_the_fence(head: HeadRow, guard: Guard, error: type[LedgerstoneError] | None) -> None:
    if error is None:
        check_fence("s", head, guard, NOW)
        return
    with pytest.raises(error) as caught:
        check_fence("s", head, guard, NOW)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("head", "guard", "error"),
    [pytest.param(row[1], row[3], row[4], id=f"{row[0]}: {row[2]}") for row in TABLE],
)
def test_the_revision_is_asked_after_the_fence(
    head: HeadRow, guard: Guard, error: type[LedgerstoneError] | None
) -> None:
    """Whoever may not write at all is told that first."""
    right = Guard(guard.fence, guard.token, head.revision)
    wrong = Guard(guard.fence, guard.token, head.revision + 1)
    if error is not None:
        for asked in (right, wrong):
            with pytest.raises(error):
                check_guard("s", head, asked, NOW)
        return
    check_guard("s", head, right, NOW)
    with pytest.raises(RevisionMoved) as caught:
        check_guard("s", head, wrong, NOW)
    assert (caught.value.expected, caught.value.actual) == (head.revision + 1, head.revision)


def test_the_incarnation_is_asked_between_them() -> None:
    """A revision says nothing when it is that of another session."""
    third = HeadRow(1, incarnation=3, revision=7)
    check_guard("s", third, Guard(revision=7, incarnation=3), NOW)
    for guard in (Guard(incarnation=2), Guard(revision=8, incarnation=2), Guard(incarnation=0)):
        with pytest.raises(IncarnationMoved) as caught:
            check_guard("s", third, guard, NOW)
        assert (caught.value.expected, caught.value.actual) == (guard.incarnation, 3)
    with pytest.raises(Fenced):
        check_guard("s", third, Guard(4, "t4", incarnation=2), NOW)
    with pytest.raises(RevisionMoved) as moved:
        check_guard("s", third, Guard(revision=8, incarnation=3), NOW)
    assert type(moved.value) is RevisionMoved


def test_a_session_that_was_made_just_now_was_not_there() -> None:
    new = HeadRow(1, incarnation=3)
    check_guard("s", new, Guard(revision=0, incarnation=0), NOW, made=True)
    for expected in (2, 3):
        with pytest.raises(IncarnationMoved):
            check_guard("s", new, Guard(incarnation=expected), NOW, made=True)


def test_the_errors_carry_what_is_needed() -> None:
    with pytest.raises(LeaseHeld) as held:
        check_fence("s", LIVE, NONE, NOW)
    assert (held.value.session, held.value.owner, held.value.expires_us) == ("s", "ada", NOW + 1)
    assert held.value.retryable
    with pytest.raises(Fenced) as fenced:
        check_fence("s", LIVE, OLDER, NOW)
    assert (fenced.value.session, fenced.value.yours, fenced.value.current) == ("s", 4, 5)
    assert not fenced.value.retryable
    with pytest.raises(LeaseExpired) as expired:
        check_fence("s", EXPIRED, CURRENT, NOW)
    assert (expired.value.session, expired.value.fence) == ("s", 5)


def test_a_lease_lives_until_its_last_microsecond() -> None:
    assert [is_live(LIVE, NOW + n) for n in (-1, 0, 1, 2)] == [True, True, False, False]
    assert not is_live(RELEASED, 0)


def test_at_most_one_guard_may_write_at_any_moment() -> None:
    """Of all fences and tokens, while a lease lives exactly its holder gets through."""
    guards = [Guard(f, t) for f, t in itertools.product((None, 4, 5, 6), (None, "t4", "t5"))]
    for now in (NOW, NOW + 1):
        through = []
        for guard in guards:
            try:
                check_fence("s", LIVE, guard, now)
                through.append(guard)
            except LedgerstoneError:
                continue
        if is_live(LIVE, now):
            assert through == [Guard(5, "t5")]
        else:
            assert all(guard.fence is None for guard in through)


def test_a_deleted_session_takes_no_writes() -> None:
    check_alive("s", LIVE)
    with pytest.raises(SessionDeleted) as caught:
        check_alive("s", HeadRow(1, deleted_us=5))
    assert caught.value.session == "s"
