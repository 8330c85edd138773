"""The rules of the queue, as functions of values."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ledgerstone.codec import decode_json
from ledgerstone.commands.work import ClaimWork, FailClaim, NewBatch
from ledgerstone.errors import Corrupt
from ledgerstone.records.work import Boundary
from ledgerstone.rules import work
from ledgerstone.rules.rows import HeadRow
from ledgerstone.rules.stuck import Obstacle, Situation, reasons

NOW = 1_000_000_000


def row(seq: int, **fields: Any) -> work.WorkRow:
    new = NewBatch(session="s", id=f"b{seq}", payloads=b"[1]")
    return replace(work.new_row(new, seq, NOW), **{"slot": "join", "merge": "payload", **fields})


def wanted(size: int = 5, boundary: Boundary = "idle", **fields: Any) -> work.Wanted:
    key: dict[str, Any] = {"claim": "c", "owner": "o", "token": "t", "ttl_us": 1}
    command = ClaimWork(
        tenant="t", session="s", max_batches=size, boundary=boundary, **key, **fields
    )
    return work.wanted_by(command)


def chosen(*rows: work.WorkRow, size: int = 5, boundary: Boundary = "idle") -> list[str]:
    return [one.id for one in work.choose(rows, wanted(size, boundary)).group]


def test_neighbours_that_fit_come_together() -> None:
    assert chosen(row(1), row(2), row(3)) == ["b1", "b2", "b3"]
    assert chosen(row(1), row(2), row(3), size=2) == ["b1", "b2"]
    assert chosen(row(1), row(2, merge="group:x"), row(3)) == ["b1"]
    assert chosen(row(1), row(2, slot="exclusive"), row(3)) == ["b1"]
    assert chosen(row(1, slot="exclusive"), row(2)) == ["b1"]
    assert chosen(row(1), row(2, delivery="earliest_safe_boundary")) == ["b1"]
    assert chosen(row(1, merge="never"), row(2, merge="never")) == ["b1"]
    assert chosen() == []


def test_a_checkpoint_admits_only_what_is_for_the_earliest_boundary() -> None:
    early = row(1, delivery="earliest_safe_boundary")
    assert chosen(early, boundary="active_turn_checkpoint") == ["b1"]
    assert chosen(row(1), early, boundary="active_turn_checkpoint") == [], "nothing is skipped"


def test_what_had_its_attempts_is_put_aside_and_is_no_border() -> None:
    spent = row(2, attempts=3, max_attempts=3)
    choice = work.choose([row(1), spent, row(3)], wanted())
    assert [one.id for one in choice.group] == ["b1", "b3"]
    assert choice.spent == [spent]
    assert not choice.ended, "there may be more"
    last = work.choose([row(1), spent], wanted(1))
    assert (last.spent, last.ended) == ([], True), "nobody looked so far"


def test_exact_ids_are_the_group_or_nothing() -> None:
    rows = [row(1), row(2), row(3)]
    exact = wanted(9, ids=("b1", "b2"))
    assert exact.fits(work.choose(rows, exact).group)
    before_others = wanted(9, ids=("b2",))
    assert before_others.fits(work.choose(rows, before_others).group)
    rows[0] = row(1, slot="exclusive")
    assert not before_others.fits(work.choose(rows, before_others).group)
    assert wanted(9, ids=()).size == 0
    assert wanted(0, ids=("b1",)).size == 0
    assert not wanted().fits([])


def test_a_claim_lives_with_its_lease_or_until_it_ends() -> None:
    claimed = row(1, claim="c", claim_fence=2, claim_expires_us=NOW + 5)
    held = HeadRow(1, fence=2, owner="o", expires_us=NOW + 1)
    assert work.has_live_claim(claimed, held, NOW)
    assert work.has_live_claim(claimed, HeadRow(1, fence=2), NOW)
    assert not work.has_live_claim(claimed, HeadRow(1, fence=2), NOW + 5)
    assert not work.has_live_claim(claimed, replace(held, fence=3), NOW)
    assert not work.has_live_claim(row(1), held, NOW)
    assert [work.is_claimable(claimed, fence) for fence in (2, 3)] == [False, True]


@pytest.mark.parametrize(
    ("attempts", "backoff_us", "pause_s"),
    [(1, 0, 1), (2, 0, 2), (5, 0, 16), (1, 500_000, 0.5), (3, 500_000, 2), (99, 1, 3600)],
)
def test_pauses_double_up_to_an_hour(attempts: int, backoff_us: int, pause_s: float) -> None:
    found = work.backoff_us(row(1, attempts=attempts, backoff_us=backoff_us))
    assert found == pause_s * 1_000_000


def test_a_failure_keeps_its_error_in_bounds() -> None:
    command = FailClaim(tenant="t", session="s", claim="c", token="t", error="e" * 5000, delay_us=0)
    after = work.failed(row(1, attempts=2, claim="c"), command, NOW)
    assert (after.claim, after.attempts, after.available_us) == (None, 2, NOW)
    assert after.last_error == "e" * work.ERROR_CHARS_MAX


def test_why_a_spent_batch_is_buried() -> None:
    assert work.spent_reason(row(1, last_error="boom")) == "boom"
    assert "after 4 attempts" in work.spent_reason(row(1, attempts=4))


def test_a_dead_letter_keeps_the_batch_and_forgets_the_claim() -> None:
    body = work.dead_body("s", row(1, claim="c", claim_fence=3, attempts=5, source_key="k"))
    batch = work.dead_batch("b1", body, "why", NOW).batch
    assert (batch.claim, batch.claim_fence, batch.attempts) == (None, 0, 5)
    again = work.revived(batch, keyed=True)
    assert (again.id, again.source_key, again.payloads) == ("b1", "k", b"[1]")
    assert work.revived(batch, keyed=False).source_key is None
    with pytest.raises(Corrupt):
        work.dead_batch("b1", b"{}", "why", NOW)


def test_bytes_and_words_that_say_nothing_are_corrupt() -> None:
    for broken in (row(1, payloads=b"[1"), row(1, slot="odd"), row(1, delivery="soon")):
        with pytest.raises(Corrupt):
            work.batch_of("s", broken)


def test_a_session_is_due_when_work_and_lease_allow_it() -> None:
    free, held = HeadRow(1), HeadRow(1, owner="o", expires_us=NOW + 9)
    assert work.due_us(0, free, NOW) == NOW
    assert work.due_us(NOW + 5, free, NOW) == NOW + 5
    assert work.due_us(0, held, NOW) == NOW + 9
    assert work.due_us(NOW + 20, held, NOW) == NOW + 20
    assert work.due_us(0, held, NOW + 9) == NOW + 9, "over"
    assert work.later_us(NOW, held) == NOW + 9
    assert work.later_us(NOW, free) == NOW


def test_delays_and_moments_both_count() -> None:
    new = NewBatch(session="s", id="b", payloads=b"[]", available_us=NOW + 5)
    assert work.new_row(new, 1, NOW).available_us == NOW + 5
    assert work.new_row(replace(new, delay_us=9), 1, NOW).available_us == NOW + 9
    assert work.new_row(replace(new, available_us=0), 1, NOW).available_us == 0


def test_wake_ups_join_each_other_and_come_once() -> None:
    woken = work.wake("ticket", "s", "b1", "q", ticket="t1")
    assert decode_json(woken.payloads) == [{"wake": "ticket", "ticket": "t1"}]
    assert (woken.slot, woken.merge, woken.source_key) == ("join", "group:wake", "wake:ticket:b1")


def test_every_reason_in_its_order() -> None:
    head = HeadRow(1, fence=1, owner="o", expires_us=NOW + 9, claimed_us=3, deleted_us=NOW)
    rows = [row(1, claim="c", claim_fence=1, claim_owner="o"), row(2, available_us=NOW + 7)]
    everything = Situation(
        "s", head, rows, [Obstacle("t", 1, 8)], [Obstacle("e", 2)], [Obstacle("d", 3, None, "why")]
    )
    found = reasons(everything, NOW)
    assert [one.reason for one in found] == [
        "deleted",
        "leased",
        "claimed",
        "delayed",
        "waiting_for_ticket",
        "unresolved_execution",
        "dead_letters",
    ]
    assert [one.until_us for one in found[1:5]] == [NOW + 9, 0, NOW + 7, 8]
    assert (found[-1].detail, found[-1].ids) == ("why", ["d"])
    assert [
        one.reason for one in reasons(Situation("s", HeadRow(1), rows[:1], [], [], []), NOW)
    ] == ["ready"]
    assert reasons(Situation("s", head, [], [], [Obstacle("e", 2)], []), NOW) == []
