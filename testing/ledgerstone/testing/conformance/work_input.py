"""Work that is described wrongly: a clear error that names the field, and nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from ledgerstone.clock import to_datetime
from ledgerstone.errors import InvalidValue, SessionBindingMismatch
from ledgerstone.intake.work import PAYLOADS_BYTES_MAX
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.work import OnASession, claimed, take

TEN_YEARS_S = 3654 * 86_400
NOON = datetime(2030, 1, 1, 12)  # noqa: DTZ001 - of nowhere in particular

# The store is Any here: what these calls pass is wrong on purpose.
Call = Callable[[Any], object]

ENQUEUES: dict[str, tuple[str, dict[str, Any]]] = {
    "key": ("key", {"key": ["k"]}),
    "empty key": ("key", {"key": ""}),
    "id": ("id", {"id": ["w"]}),
    "queue": ("queue", {"queue": ["mail"]}),
    "no queue": ("queue", {"queue": ""}),
    "delivery": ("delivery", {"delivery": "whenever"}),
    "delivery as a list": ("delivery", {"delivery": ["earliest_safe_boundary"]}),
    "slot": ("slot", {"slot": "shared"}),
    "merge": ("merge", {"merge": "always"}),
    "merge group without a name": ("merge", {"merge": "group:"}),
    "merge as a list": ("merge", {"merge": ["never"]}),
    "priority too low": ("priority", {"priority": -1}),
    "priority too high": ("priority", {"priority": 256}),
    "priority as text": ("priority", {"priority": "high"}),
    "priority as a flag": ("priority", {"priority": True}),
    "negative delay": ("delay_s", {"delay_s": -1}),
    "huge delay": ("delay_s", {"delay_s": TEN_YEARS_S}),
    "endless delay": ("delay_s", {"delay_s": float("inf")}),
    "delay that is none": ("delay_s", {"delay_s": float("nan")}),
    "delay as text": ("delay_s", {"delay_s": "soon"}),
    "moment without a zone": ("available_at", {"available_at": NOON}),
    "moment before time": ("available_at", {"available_at": -1}),
    "moment after time": ("available_at", {"available_at": 1 << 60}),
    "moment as text": ("available_at", {"available_at": "2030-01-01"}),
    "no attempts": ("max_attempts", {"max_attempts": 0}),
    "broken attempts": ("max_attempts", {"max_attempts": 1.5}),
    "negative backoff": ("backoff_s", {"backoff_s": -0.5}),
    "huge backoff": ("backoff_s", {"backoff_s": TEN_YEARS_S}),
}
OTHERS: dict[str, tuple[str, Call]] = {
    "no payload": ("payloads", lambda s: s.work.enqueue("s")),
    "a payload that is no JSON": ("payload", lambda s: s.work.enqueue("s", {1, 2})),
    "a session that is none": ("session", lambda s: s.work.enqueue(["s"], 1)),
    "a batch without its session": ("batch", lambda s: s.work.cancel("s")),
    "a batch as a list": ("batch", lambda s: s.work.cancel("s", ["w1"])),
    "a claim that is none": ("claim", lambda s: s.work.renew("c1")),
    "a claim to abandon": ("claim", lambda s: s.work.abandon(None)),
    "a claim to fail": ("claim", lambda s: s.work.fail("c1", "error")),
    "a lease that is none": ("lease", lambda s: s.work.claim("s")),
    "pending as text": ("pending", lambda s: s.work.list("s", pending="yes")),
    "the owner of a take": ("owner", lambda s: s.work.take(owner=["ann"])),
    "the queue of a take": ("queue", lambda s: s.work.take(queue=None)),
    "a take of nothing": ("max", lambda s: s.work.take(max=0)),
    "a take for no time": ("ttl_s", lambda s: s.work.take(ttl_s=0)),
    "a take for ever": ("ttl_s", lambda s: s.work.take(ttl_s=TEN_YEARS_S)),
    "a hold that waits backwards": ("wait_s", lambda s: s.work.hold(wait_s=-1)),
    "a hold with half a heart": ("heartbeat", lambda s: s.work.hold(heartbeat=1)),
    "a replay of a list": ("batch", lambda s: s.work.replay(["w1"])),
    "a drop of nothing": ("batch", lambda s: s.work.drop(None)),
    "too small a page": ("limit", lambda s: s.work.dead(limit=0)),
    "a foreign cursor": ("cursor", lambda s: s.work.dead(cursor="abc")),
    "limit of reasons": ("limit", lambda s: s.work.stuck(limit=-1)),
}
CLAIMS: dict[str, tuple[str, dict[str, Any]]] = {
    "boundary": ("boundary", {"boundary": "busy"}),
    "boundary as a list": ("boundary", {"boundary": ["idle"]}),
    "negative max": ("max", {"max": -1}),
    "max as text": ("max", {"max": "1"}),
    "ids as text": ("ids", {"ids": "w1"}),
    "ids of numbers": ("batch", {"ids": [1]}),
    "queue as a list": ("queue", {"queue": ["default"]}),
    "negative ttl": ("ttl_s", {"ttl_s": -1}),
    "huge ttl": ("ttl_s", {"ttl_s": TEN_YEARS_S}),
    "id as a list": ("id", {"id": ["c"]}),
}


class TestBadWork(OnASession):
    def refused(self, backend: Bed, field: str, call: Call) -> None:
        with backend.unchanged("s"), pytest.raises(InvalidValue) as caught:
            call(backend.store)
        assert caught.value.field == field
        assert field in str(caught.value)

    @pytest.mark.parametrize("case", ENQUEUES)
    def test_what_can_not_be_enqueued(self, backend: Bed, session: str, case: str) -> None:
        field, how = ENQUEUES[case]
        self.refused(backend, field, lambda s: s.work.enqueue(session, 1, **how))
        self.refused(backend, field, lambda s: s.turns.begin(session).enqueue(1, **how))

    @pytest.mark.parametrize("case", OTHERS)
    def test_calls_that_make_no_sense(self, backend: Bed, session: str, case: str) -> None:
        field, call = OTHERS[case]
        self.refused(backend, field, call)

    @pytest.mark.parametrize("case", CLAIMS)
    def test_what_can_not_be_claimed(self, backend: Bed, session: str, case: str) -> None:
        field, how = CLAIMS[case]
        backend.store.work.enqueue(session, 1, id="w1")
        lease = take(backend)
        self.refused(backend, field, lambda s: s.work.claim(lease, **how))

    def test_a_keyword_that_a_turn_does_not_know(self, backend: Bed, session: str) -> None:
        self.refused(backend, "colour", lambda s: s.turns.begin(session).enqueue(1, colour="red"))

    def test_payloads_have_a_limit_together(self, backend: Bed, session: str) -> None:
        half = "x" * (PAYLOADS_BYTES_MAX // 2)
        self.refused(backend, "payload", lambda s: s.work.enqueue(session, half, half))
        made = backend.store.work.enqueue(session, half, half[:-10])
        assert backend.store.work.list(session) == [made]

    def test_a_claim_belongs_to_its_session(self, backend: Bed, session: str) -> None:
        backend.store.sessions.create(id="other")
        backend.store.work.enqueue(session, 1)
        claim = claimed(backend, take(backend))
        with pytest.raises(SessionBindingMismatch):
            backend.store.turns.begin("other").complete(claim)

    def test_a_moment_may_be_a_datetime(self, backend: Bed, session: str) -> None:
        moment = datetime(2040, 1, 1, tzinfo=UTC)
        made = backend.store.work.enqueue(session, 1, available_at=moment)
        assert to_datetime(made.available_us) == moment
