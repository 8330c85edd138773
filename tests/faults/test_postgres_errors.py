"""What the server says, as an error that the caller can react to; what passes is tried again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from ledgerstone.commands.sessions import GetHead
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.engines.postgres import interactive as postgres_interactive
from ledgerstone.engines.postgres.backend import PostgresBackend, open_postgres
from ledgerstone.engines.postgres.drivers.errors import repeats, translate
from ledgerstone.engines.postgres.drivers.port import (
    BadText,
    ConnectionLost,
    DeadlineOver,
    NotConnected,
    ServerSaid,
    first_connected,
    from_column,
    to_column,
)
from ledgerstone.engines.postgres.drivers.urls import parse_target
from ledgerstone.errors import (
    AccessDenied,
    BackendError,
    Busy,
    Corrupt,
    InvalidValue,
    LedgerstoneError,
    NotSupported,
    ReadOnly,
    SchemaTooOld,
    StorageFull,
    Timeout,
    Unavailable,
)
from ledgerstone.handlers.all import HANDLERS
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.trampoline import run_now

SAID: dict[str, tuple[type[LedgerstoneError], bool]] = {
    "40001": (Busy, True),
    "40P01": (Busy, True),
    "23505": (Busy, True),
    "55P03": (Busy, True),
    "57014": (Timeout, True),
    "25P03": (Timeout, True),
    "53100": (StorageFull, True),
    "53200": (Busy, True),
    "53300": (Busy, True),
    "58030": (Unavailable, True),
    "25006": (ReadOnly, True),
    "42501": (AccessDenied, False),
    "42P01": (SchemaTooOld, False),
    "26000": (NotSupported, False),
    "22021": (InvalidValue, False),
    "XX000": (BackendError, False),
}


@pytest.mark.parametrize("state", SAID)
def test_what_the_server_says(state: str) -> None:
    kind, retryable = SAID[state]
    told = translate(ServerSaid(state, "its words"), "here")
    assert type(told) is kind
    assert told.retryable is retryable


def test_what_the_driver_says() -> None:
    assert type(translate(ConnectionLost("gone"), "here")) is Unavailable
    assert type(translate(DeadlineOver("late"), "here")) is Timeout
    assert type(translate(BadText("\\ud800"), "here")) is InvalidValue
    assert type(translate(KeyError("x"), "here")) is Corrupt
    assert not repeats(DeadlineOver("late"))
    assert repeats(ConnectionLost("gone"))


def test_one_address_that_will_answer_is_enough() -> None:
    refused = NotConnected("refused", gone=True)
    starting = NotConnected("starting", "57P03")
    wrong = NotConnected("password", "28P01")
    assert starting.passing
    assert not wrong.passing
    assert refusal_of(starting, wrong).passing
    assert refusal_of(wrong, refused).gone
    assert refusal_of(wrong, refused).message == "password; refused"


def refusal_of(*answers: NotConnected) -> NotConnected:
    """What is said when each address answers so."""
    remaining = list(answers)

    async def connect(host: str | None, port: str | None, timeout_s: float) -> object:
        raise remaining.pop(0)

    with pytest.raises(NotConnected) as caught:
        run_now(first_connected([(None, None)] * len(answers), connect, 1.0))
    return caught.value


ADDRESSES = {
    "postgresql://u@a:1,b/db": [("a", "1"), ("b", "5432")],
    "postgresql://u@/db?host=a,b&port=1,2": [("a", "1"), ("b", "2")],
    "postgresql://u@/db?host=a,b&port=7": [("a", "7"), ("b", "7")],
    "postgresql://u@a:1/db": [(None, None)],
    "postgresql:///db?host=/run/here": [(None, None)],
}


@pytest.mark.parametrize("url", ADDRESSES)
def test_several_addresses_in_one_url(url: str) -> None:
    assert parse_target(url).addresses == ADDRESSES[url]


def test_what_a_connection_is_told_on_starting() -> None:
    """Behind a pooler nothing that it does not track; there every transaction is told."""
    straight = parse_target("postgresql://a/db?statement_timeout_s=2")
    assert straight.settings["application_name"] == "ledgerstone"
    assert straight.settings["statement_timeout"] == "2500"
    assert "-c search_path=ledgerstone" in straight.options
    pooled = parse_target("postgresql://a/db?prepare=no&schema=other")
    assert (pooled.settings, pooled.options) == ({"application_name": "ledgerstone"}, "")
    assert "SET LOCAL search_path = 'other'" in pooled.lead
    assert "application_name" not in parse_target("postgresql://a/db?application_name=x").settings


@pytest.mark.parametrize("text", ["", "a", "\0", "\x01", "\x01\x02", "\0\x01\0\0\x02", "\x01\x01"])
def test_text_that_no_column_can_hold(text: str) -> None:
    assert "\0" not in to_column(text)
    assert from_column(to_column(text)) == text


@pytest.fixture
def backend(postgres_url: str) -> Iterator[PostgresBackend]:
    with closing(open_postgres(postgres_url)) as opened:
        yield opened


class Failing:
    """A handler that meets an error of the server the first few times."""

    def __init__(self, handler: Any, state: str, times: int) -> None:
        self._handler = handler
        self._state = state
        self.left = times
        self.calls = 0

    async def __call__(self, tx: Any, asked: Any) -> Any:
        answer = await self._handler(tx, asked)  # It may be begun anew to number a session.
        self.calls += 1
        if self.left:
            self.left -= 1
            raise ServerSaid(self._state, "injected")
        return answer


@pytest.mark.parametrize("state", ["40001", "40P01", "23505", "25006", "0A000"])
def test_what_passes_is_tried_again(
    state: str, backend: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Failing(HANDLERS[CommitTurn], state, 3)
    monkeypatch.setitem(HANDLERS, CommitTurn, failing)
    answer = backend.write(commit_of("s", "t", "x"))
    assert (answer.revision, answer.replayed, failing.calls) == (1, False, 4)
    reading = Failing(HANDLERS[GetHead], state, 3)
    monkeypatch.setitem(HANDLERS, GetHead, reading)
    heads = backend.read([GetHead(tenant=TENANT, id="s")] * 2)
    assert [head.revision for head in heads] == [1, 1]


def test_what_does_not_pass_is_told_after_a_few_times(
    backend: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Failing(HANDLERS[CommitTurn], "40P01", 1000)
    monkeypatch.setitem(HANDLERS, CommitTurn, failing)
    monkeypatch.setattr(postgres_interactive, "FIRST_PAUSE_S", 0.0)
    with pytest.raises(Busy) as caught:
        backend.write(commit_of("s", "t", "x"))
    assert isinstance(caught.value.__cause__, ServerSaid)
    assert failing.calls == postgres_interactive.ROUNDS
    failing.left = 0
    assert backend.write(commit_of("s", "t", "x")).revision == 1


def test_anything_else_is_told_at_once(
    backend: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Failing(HANDLERS[CommitTurn], "XX000", 1)
    monkeypatch.setitem(HANDLERS, CommitTurn, failing)
    with pytest.raises(BackendError, match="injected"):
        backend.write(commit_of("s", "t", "x"))
    assert failing.calls == 1
