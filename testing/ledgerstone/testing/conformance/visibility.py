"""Lists of the messages that everybody may see, or only the model."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone import assistant, user
from ledgerstone.errors import InvalidValue
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Page
from ledgerstone.testing.bed import Bed

__all__ = ["TestVisibility"]


def said(page: Page[Message]) -> list[str]:
    return [message.text for message in page]


def talk(backend: Bed, count: int = 6) -> list[Message]:
    """Every third message is for the model only."""
    made = [
        user(f"m{n}", visibility="internal") if n % 3 == 0 else assistant(f"m{n}")
        for n in range(count)
    ]
    return backend.store.messages.append("s", *made, create=True, run_id="r")


@pytest.mark.promise(213)
class TestVisibility:
    """`messages.list(session, visibility=...)`."""

    def test_each_alone_and_both(self, backend: Bed) -> None:
        talk(backend)
        listed = backend.reopen().messages.list
        assert said(listed("s", visibility="internal")) == ["m0", "m3"]
        assert said(listed("s", visibility="all")) == ["m1", "m2", "m4", "m5"]
        assert said(listed("s")) == [f"m{n}" for n in range(6)]
        assert said(listed("s", visibility="internal", order="-seq")) == ["m3", "m0"]
        assert said(listed("nobody", visibility="internal")) == []

    def test_what_says_all_is_as_what_says_nothing(self, backend: Bed) -> None:
        listed = backend.store.messages.list
        backend.store.messages.append("s", user("a", visibility="all"), user("b"), create=True)
        assert said(listed("s", visibility="all")) == ["a", "b"]

    @pytest.mark.parametrize("order", ["seq", "-seq"])
    @pytest.mark.parametrize("run", [None, "r"])
    def test_pages_and_totals_are_of_the_filter(
        self, backend: Bed, order: str, run: str | None
    ) -> None:
        talk(backend, 60)
        backend.store.messages.append("s", user("later", visibility="internal"))
        wanted = [f"m{n}" for n in range(0, 60, 3)] + ([] if run else ["later"])
        where: dict[str, Any] = {"visibility": "internal", "order": order, "run_id": run}
        found: list[str] = []
        cursor = None
        while cursor is not None or not found:
            page = backend.store.messages.list("s", limit=7, cursor=cursor, total=True, **where)
            assert (page.total, page.limit) == (len(wanted), 7)
            found, cursor = [*found, *said(page)], page.cursor
        assert found == (wanted if order == "seq" else wanted[::-1])
        page = backend.store.messages.list("s", limit=3, offset=5, **where)
        assert said(page) == found[5:8]

    def test_of_a_branch(self, backend: Bed) -> None:
        made = talk(backend)
        backend.store.branches.create("s", "b", at=made[1].id)
        backend.store.messages.append("s", user("x", visibility="internal"), branch="b")
        page = backend.store.messages.list("s", branch="b", visibility="internal", total=True)
        assert (said(page), page.total) == (["m0", "x"], 2)

    def test_deleted_ones_on_request(self, backend: Bed) -> None:
        made = talk(backend)
        backend.store.messages.delete(made[3])
        listed = backend.store.messages.list
        assert said(listed("s", visibility="internal")) == ["m0"]
        page = listed("s", visibility="internal", deleted=True, total=True)
        assert (said(page), page.total) == (["m0", "m3"], 2)

    def test_what_counts_is_how_a_message_shows_now(self, backend: Bed) -> None:
        made = talk(backend)
        messages = backend.store.messages
        messages.amend(made[0], visibility="all")
        messages.amend(made[1], visibility="internal")
        messages.amend(made[1], metadata={"k": 1})
        messages.amend(made[3], metadata={"visibility": "all"})
        assert said(messages.list("s", visibility="internal")) == ["m1", "m3"]
        assert said(messages.list("s", visibility="all")) == ["m0", "m2", "m4", "m5"]
        messages.amend(made[1], visibility="all")
        assert messages.list("s", visibility="internal", total=True).total == 1

    def test_a_cursor_is_of_one_list(self, backend: Bed) -> None:
        talk(backend)
        cursor = backend.store.messages.list("s", limit=1).cursor
        assert cursor is not None
        with pytest.raises(InvalidValue, match="cursor"):
            backend.store.messages.list("s", visibility="all", cursor=cursor)

    def test_anything_else_is_refused(self, backend: Bed) -> None:
        wrong: list[Any] = ["", "hidden", True, 5]
        for visibility in wrong:
            with pytest.raises(InvalidValue, match="visibility"):
                backend.store.messages.list("s", visibility=visibility)
