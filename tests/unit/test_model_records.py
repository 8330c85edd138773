"""Leases, runs, attachments and work in the model."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ledgerstone.commands import FREE, Guard
from ledgerstone.commands.attachments import (
    ForgetAttachment,
    GetAttachment,
    ListUncommitted,
    RecordIntent,
)
from ledgerstone.commands.leases import BreakLease, GetLease, ReleaseLease, RenewLease, TakeLease
from ledgerstone.commands.nodes import GetNotes
from ledgerstone.commands.runs import GetRun, LatestRun, PutRun
from ledgerstone.commands.sessions import DeleteSession, GetSession
from ledgerstone.commands.work import ListWork
from ledgerstone.errors import (
    AlreadyExists,
    Fenced,
    IllegalTransition,
    InvalidValue,
    LeaseExpired,
    SessionBindingMismatch,
    SessionDeleted,
    SessionNotFound,
)
from ledgerstone.records.attachments import Attachment
from ledgerstone.records.leases import Lease
from ledgerstone.records.runs import Run
from ledgerstone.records.work import Batch, Claim
from tests.unit.test_model_builders import (
    START_US,
    Bench,
    S,
    T,
    claim_work,
    completed,
    enqueue,
    guard,
)

MINUTE_US = 60_000_000


def take(owner: str, token: str, session: str = S, ttl_us: int = MINUTE_US) -> TakeLease:
    return TakeLease(tenant=T, session=session, owner=owner, token=token, ttl_us=ttl_us)


def exact(lease: Lease) -> dict[str, object]:
    return {
        "tenant": T,
        "session": lease.session,
        "owner": lease.owner,
        "token": lease.token,
        "fence": lease.fence,
    }


def renew(lease: Lease, ttl_us: int = MINUTE_US) -> RenewLease:
    return RenewLease(**exact(lease), ttl_us=ttl_us)  # type: ignore[arg-type]


def release(lease: Lease) -> ReleaseLease:
    return ReleaseLease(**exact(lease))  # type: ignore[arg-type]


def test_take_grants_one_owner_at_a_time_and_fences_rise() -> None:
    bench = Bench(S)
    mine = bench.write(take("w1", "x"))
    assert mine == Lease(S, "w1", "x", 1, START_US, START_US + MINUTE_US)
    assert bench.write(take("w2", "y")) is None
    bench.clock.advance(1)
    again = bench.write(replace(take("w1", "other"), reenter=True))
    assert (again.token, again.fence) == ("x", 1)
    assert again.expires_us == mine.expires_us + 1_000_000
    assert bench.read(GetLease(tenant=T, session=S)) == again
    bench.clock.advance(61)
    assert bench.read(GetLease(tenant=T, session=S)) is None
    assert bench.write(take("w2", "y")).fence == 2
    assert bench.write(take("w2", "z")).fence == 3, "the same owner gets a new one too"
    for session, error in (("x", SessionNotFound), (S, SessionDeleted)):
        bench.write(DeleteSession(tenant=T, id=session))
        with pytest.raises(error):
            bench.write(take("w1", "x", session))
    assert bench.read(GetLease(tenant=T, session="x")) is None


def test_renew_needs_the_exact_live_lease() -> None:
    bench = Bench(S)
    mine = bench.write(take("w1", "x"))
    bench.clock.advance(1)
    assert bench.write(renew(mine)).expires_us == mine.expires_us + 1_000_000
    bench.clock.advance(61)
    with pytest.raises(LeaseExpired):
        bench.write(renew(mine))
    bench.write(take("w2", "y"))
    with pytest.raises(Fenced):
        bench.write(renew(mine))
    with pytest.raises(SessionNotFound):
        bench.write(renew(Lease("x", "w1", "x", 1, 0, 0)))


def test_release_is_silent_about_anything_stale() -> None:
    bench = Bench(S)
    mine = bench.write(take("w1", "x"))
    bench.clock.advance(61)
    newer = bench.write(take("w2", "y"))
    assert bench.write(release(mine)) is False
    assert bench.read(GetLease(tenant=T, session=S)) == newer
    bench.clock.advance(61)
    assert bench.write(release(newer)) is True, "an expired own lease still counts"
    assert bench.write(release(newer)) is False
    assert bench.write(release(Lease("x", "", "", 1, 0, 0))) is False
    assert bench.write(take("w1", "z")).fence == 3


def test_break_ends_a_live_lease_and_keeps_who_and_why() -> None:
    bench = Bench(S)
    breaking = BreakLease(tenant=T, session=S, by="ops", reason="stuck")
    assert bench.write(breaking) is None
    mine = bench.write(take("w1", "x"))
    assert bench.write(breaking) == mine
    assert bench.read(GetLease(tenant=T, session=S)) is None
    with pytest.raises(Fenced):
        bench.write(renew(mine))
    notes = bench.read(GetNotes(tenant=T, session=S, nodes=("ledger.lease",)))
    note = notes["ledger.lease"]["break/000000000002"]
    assert note.body == {"by": "ops", "reason": "stuck", "owner": "w1", "fence": 1}
    with pytest.raises(SessionNotFound):
        bench.write(BreakLease(tenant=T, session="x", by="", reason=""))


def test_runs_are_put_once_or_overwritten_legally() -> None:
    bench = Bench(S, "s2")
    made = bench.write(PutRun(tenant=T, run=Run(id="r1", session=S, status="created")))
    assert (made.created_us, made.updated_us, made.started_us) == (START_US + 1,) * 2 + (None,)
    assert bench.read(GetRun(tenant=T, id="r1")) == made
    assert bench.read(GetRun(tenant="other", id="r1")) is None
    with pytest.raises(AlreadyExists):
        bench.write(PutRun(tenant=T, run=Run(id="r1", session=S)))
    bench.clock.advance(1)
    going = bench.write(PutRun(tenant=T, run=Run(id="r1", session=S), upsert=True))
    assert (going.created_us, going.started_us) == (made.created_us, bench.clock.now_us())
    with pytest.raises(IllegalTransition):
        bench.write(PutRun(tenant=T, run=Run(id="r1", session=S, status="created"), upsert=True))
    with pytest.raises(SessionBindingMismatch):
        bench.write(PutRun(tenant=T, run=Run(id="r1", session="s2"), upsert=True))
    with pytest.raises(SessionNotFound):
        bench.write(PutRun(tenant=T, run=Run(id="r2", session="x")))
    session = bench.read(GetSession(tenant=T, id=S))
    assert (session.active_run, session.updated_us) == ("r1", going.updated_us)


def test_the_latest_run_is_the_last_updated_one() -> None:
    bench = Bench(S)
    assert bench.read(LatestRun(tenant=T, session=S)) is None
    for run in ("r2", "r1"):
        bench.write(PutRun(tenant=T, run=Run(id=run, session=S, state={"of": run})))
    assert bench.read(LatestRun(tenant=T, session=S)).id == "r1", "a change is always later"
    done = bench.write(PutRun(tenant=T, run=Run(id="r2", session=S, status="done"), upsert=True))
    assert bench.read(LatestRun(tenant=T, session=S)) == done


def test_an_attachment_keeps_its_first_intent() -> None:
    bench = Bench()
    first = bench.write(RecordIntent(tenant=T, session=S, id="b", uri="u"))
    assert first == Attachment(S, "b", "u", START_US)
    bench.clock.advance(1)
    assert bench.write(RecordIntent(tenant=T, session=S, id="b", uri="other")) == first
    bench.write(RecordIntent(tenant=T, session=S, id="a", uri="u"))

    def uncommitted(cutoff_us: int) -> list[str]:
        rows = bench.read(ListUncommitted(tenant=T, cutoff_us=cutoff_us))
        return [row.id for row in rows]

    assert uncommitted(START_US) == ["b"]
    assert uncommitted(START_US + MINUTE_US) == ["b", "a"]
    assert uncommitted(START_US - 1) == []
    assert bench.write(ForgetAttachment(tenant=T, session=S, id="b")) is True
    assert bench.write(ForgetAttachment(tenant=T, session=S, id="b")) is False
    assert bench.read(GetAttachment(tenant=T, session=S, id="b")) is None


def queued(batch: str, seq: int, **more: object) -> Batch:
    fields: dict[str, object] = {"payloads": [{"of": batch}], "enqueued_us": START_US, **more}
    return Batch(session=S, id=batch, enqueue_seq=seq, **fields)  # type: ignore[arg-type]


def test_work_is_queued_once_per_batch_and_source_key() -> None:
    bench = Bench(S, "s2")
    first = bench.write(enqueue("b1", "k"))
    assert first == queued("b1", 1, source_key="k")
    bench.clock.advance(1)
    assert bench.write(enqueue("b2", "k")) == first
    assert bench.write(enqueue("b1")) == first
    assert bench.write(enqueue("b3")).enqueue_seq == 2
    assert bench.write(enqueue("b1", "k", "s2")).session == "s2"
    assert [batch.id for batch in bench.read(ListWork(tenant=T, session=S))] == ["b1", "b3"]
    assert bench.read(ListWork(tenant=T, session="x")) == []
    with pytest.raises(SessionNotFound):
        bench.write(enqueue("b1", session="x"))
    bench.write(DeleteSession(tenant=T, id="s2"))
    with pytest.raises(SessionDeleted):
        bench.write(enqueue("b9", session="s2"))


def test_a_claim_is_pinned_to_the_fence() -> None:
    bench = Bench(S)

    def claim(name: str, under: Guard) -> Claim | None:
        found: Claim | None = bench.write(claim_work(name, under))
        return found

    bench.write(enqueue("b1"))
    bench.write(enqueue("b2"))
    with pytest.raises(InvalidValue):
        claim("c1", FREE)
    old = guard(bench.lease())
    first = claim("c1", old)
    until = START_US + MINUTE_US
    owned = queued("b1", 1, attempts=1, claim="c1", claim_fence=1, claim_expires_us=until)
    assert first == Claim(
        session=S,
        id="c1",
        owner="w",
        token="of c1",
        fence=1,
        claimed_us=START_US,
        expires_us=until,
        batches=[owned],
    )
    assert claim("c1", old) == first
    assert [b.id for b in (claim("c2", old) or first).batches] == ["b2"]
    assert claim("c3", old) is None
    bench.clock.advance(61)
    with pytest.raises(LeaseExpired):
        claim("c3", old)
    new = guard(bench.lease("w2"))
    with pytest.raises(Fenced):
        claim("c3", old)
    stolen = claim("c3", new)
    assert stolen is not None
    assert (stolen.fence, [b.id for b in stolen.batches]) == (2, ["b1"])
    done = bench.commit("t1", complete=completed("c3"), guard=new)
    assert done.revision == 1
    assert bench.write(enqueue("b3")).enqueue_seq == 3, "never used again"
