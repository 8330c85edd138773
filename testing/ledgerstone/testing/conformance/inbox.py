"""Finding tickets, and tickets that nobody decided in time."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone.errors import InvalidValue, TicketClosed
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.tickets import OnATicket


class TestExpiry(OnATicket):
    @pytest.mark.parametrize(("on_expiry", "action"), [("reject", "cancel"), ("approve", "resume")])
    def test_time_decides_as_the_ticket_says(
        self, backend: Bed, session: str, on_expiry: str, action: str
    ) -> None:
        asked = self.ask(backend, expires_s=10, on_expiry=on_expiry)
        backend.clock.advance(9)
        assert backend.store.tickets.expire() == []
        backend.clock.advance(1.1)
        (settled,) = backend.reopen().tickets.expire()
        assert settled == self.get(backend, asked)
        assert settled.decision is not None
        assert (settled.decision.action, settled.decision.by) == (action, "ledger.expiry")
        assert settled.decision.expired
        (batch,) = backend.store.work.list(session)
        assert batch.payloads[0]["action"] == action
        assert backend.store.tickets.expire() == []

    def test_too_late(self, backend: Bed, session: str) -> None:
        asked = self.ask(backend, expires_s=10)
        backend.clock.advance(11)
        for _ in range(2):
            with pytest.raises(TicketClosed) as caught:
                backend.store.tickets.resolve(asked, "approve", by="bob")
            assert caught.value.status == "expired"
            backend.store.tickets.expire()

    def test_the_longest_overdue_come_first(self, backend: Bed, session: str) -> None:
        for n in range(5):
            name = f"s{n}"
            backend.store.sessions.create(id=name)
            self.ask(backend, name, id=f"t{n}", expires_s=10 - n)
        self.ask(backend, id="later", expires_s=100)
        backend.clock.advance(20)
        first = backend.store.tickets.expire(limit=2)
        assert [ticket.id for ticket in first] == ["t4", "t3"]
        assert [ticket.id for ticket in backend.store.tickets.expire()] == ["t2", "t1", "t0"]
        assert [ticket.id for ticket in backend.store.tickets.inbox()] == ["later"]

    def test_several_of_one_session(self, backend: Bed, session: str) -> None:
        for n in range(3):
            self.ask(backend, call=f"c{n}", id=f"t{n}", expires_s=5)
        backend.clock.advance(20)
        assert len(backend.store.tickets.expire(limit=2)) == 2
        assert len(backend.store.tickets.expire(limit=2)) == 1
        assert len(backend.store.work.list(session)) == 3


class TestInbox(OnATicket):
    @pytest.fixture
    def asked(self, backend: Bed) -> list[str]:
        """t0 to t5, a minute apart, of two users, for two reasons, two of them with an end."""
        for n in range(6):
            name = f"s{n}"
            backend.store.sessions.create(id=name, user=("ada", "bob")[n % 2])
            expires_s = 3600 * n if n in (2, 3) else None
            reason = "money" if n < 3 else "risk"
            self.ask(backend, name, id=f"t{n}", reason=reason, expires_s=expires_s)
            backend.clock.advance(60)
        return [f"t{n}" for n in range(6)]

    def names(self, page: Any) -> list[str]:
        return [ticket.id for ticket in page]

    def test_oldest_first(self, backend: Bed, asked: list[str]) -> None:
        page = backend.store.tickets.inbox(total=True)
        assert self.names(page) == asked
        assert (page.total, page.has_more, page.cursor) == (6, False, None)

    @pytest.mark.parametrize(
        ("where", "wanted"),
        [
            ({"user": "ada"}, "024"),
            ({"session": "s3"}, "3"),
            ({"session": "nowhere"}, ""),
            ({"reason": "risk"}, "345"),
            ({"reason": "risk", "user": "bob"}, "35"),
            ({"older_than_s": 200}, "012"),
            ({"expires_within_s": 7200}, "2"),
            ({"expires_within_s": 86_400}, "23"),
        ],
    )
    def test_filters(
        self, backend: Bed, asked: list[str], where: dict[str, Any], wanted: str
    ) -> None:
        page = backend.store.tickets.inbox(total=True, **where)
        assert self.names(page) == [f"t{n}" for n in wanted]
        assert page.total == len(wanted)

    def test_a_decided_one_leaves(self, backend: Bed, asked: list[str]) -> None:
        store = backend.store
        store.tickets.resolve("t1", "approve", by="bob")
        store.tickets.cancel("t4")
        assert self.names(backend.reopen().tickets.inbox()) == ["t0", "t2", "t3", "t5"]
        assert self.names(backend.store.tickets.list(status="resolved")) == ["t1"]
        assert self.names(backend.store.tickets.list(status="withdrawn")) == ["t4"]
        assert self.names(backend.store.tickets.list(status=None)) == asked
        assert self.names(backend.store.tickets.list(run_id="r-s2")) == ["t2"]

    def test_pages(self, backend: Bed, asked: list[str]) -> None:
        seen, cursor = [], None
        while True:
            page = backend.store.tickets.inbox(limit=4, cursor=cursor, total=True)
            assert page.total == 6
            seen += self.names(page)
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == asked
        assert self.names(backend.store.tickets.inbox(limit=2, offset=3)) == ["t3", "t4"]

    def test_a_cursor_of_another_list(self, backend: Bed, asked: list[str]) -> None:
        cursor = backend.store.tickets.inbox(limit=1).cursor
        with pytest.raises(InvalidValue) as caught:
            backend.store.tickets.inbox(limit=1, cursor=cursor, user="ada")
        assert caught.value.field == "cursor"

    @pytest.mark.parametrize(
        ("field", "given"),
        [
            ("status", {"status": "closed"}),
            ("user", {"user": ""}),
            ("older_than_s", {"older_than_s": -1}),
            ("expires_within_s", {"expires_within_s": "soon"}),
            ("limit", {"limit": 0}),
            ("offset", {"offset": -1}),
            ("total", {"total": "yes"}),
        ],
    )
    def test_bad_filters(self, backend: Bed, field: str, given: dict[str, Any]) -> None:
        with pytest.raises(InvalidValue) as caught:
            backend.store.tickets.list(**given)
        assert caught.value.field == field
