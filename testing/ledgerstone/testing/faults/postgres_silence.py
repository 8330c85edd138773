"""A server that is there and does not answer any more: every call comes back in time.

The wire takes what is sent and passes nothing on, as when a cable is pulled. Calls meet that at a
connection that worked a moment ago, at a new one, or at the end of their transaction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ledgerstone.clock import monotonic_s
from ledgerstone.errors import LedgerstoneError, OutcomeUnknown, Unavailable
from ledgerstone.testing.servers.proxy import Moment, Proxy

SLACK_S = 0.6
"""For a machine that is busy with other things."""
TRIES = 10

Call = Callable[[], Any]


class Waited(msgspec.Struct, frozen=True):
    """How long a call took, and how it ended."""

    name: str
    seconds: float
    error: Exception | None


def timed(name: str, call: Call) -> Waited:
    start_s = monotonic_s()
    error = None
    try:
        call()
    except Exception as caught:
        error = caught
    return Waited(name, monotonic_s() - start_s, error)


def together(calls: Sequence[tuple[str, Call]]) -> list[Waited]:
    """All at once, each in a thread of its own."""
    found: list[Waited] = []
    threads = [
        threading.Thread(target=lambda one=one: found.append(timed(*one)), daemon=True)
        for one in calls
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def judge(waited: Waited, limit_s: float) -> list[str]:
    """It ended in time, and said that it could not know."""
    found = []
    if waited.seconds > limit_s + SLACK_S:
        found.append(f"{waited.name} took {waited.seconds:.2f} s of {limit_s} s")
    error = waited.error
    if isinstance(error, LedgerstoneError):
        if isinstance(error, Unavailable | OutcomeUnknown) and not error.retryable:
            found.append(f"{waited.name}: {type(error).__name__} is not retryable")
    elif error is not None:
        found.append(f"{waited.name}: {type(error).__name__}: {error}")
    return found


def sooner_or_later(call: Call) -> Any:
    """What a call answers; its deadline is short, and a busy machine may need another try."""
    for _ in range(TRIES - 1):
        try:
            return call()
        except (Unavailable, OutcomeUnknown):
            continue
    return call()


def fell_silent(proxy: Proxy, warm: Call) -> None:
    """Connections that work, and then nothing more."""
    proxy.speak()
    sooner_or_later(warm)
    proxy.silence()


def falls_silent_at(proxy: Proxy, warm: Call, match: bytes) -> None:
    """The same, when a request that meets this regular expression has been carried out."""
    fell_silent(proxy, warm)
    proxy.speak()
    proxy.cut_at(match, Moment.ANSWERED, action=proxy.silence)
