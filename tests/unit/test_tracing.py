"""trace_of makes events of calls, and says at once what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone import InvalidValue, trace_of

ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
CALLS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "a name that is none": ("event.name", lambda made: made(3, success=True)),
    "an empty kind": ("event.kind", lambda made: made("n", success=True, kind="")),
    "success as text": ("event.success", lambda made: made("n", success="maybe")),
    "an output without size": ("output", lambda made: made("n", success=True, output=object())),
    "a number for the output": ("output", lambda made: made("n", success=True, output=0)),
    "metadata that is a list": ("metadata", lambda made: made("n", success=True, metadata=["a"])),
    "keys that are no text": (
        "metadata",
        lambda made: made("n", success=True, metadata={"a": 1, 2: 3}),
    ),
    "details that are no JSON": (
        "event.details.x",
        lambda made: made("n", success=True, details={"x": b"raw"}),
    ),
    "a fraction of a millisecond": (
        "event.duration_ms",
        lambda made: made("n", success=True, duration_ms=0.5),
    ),
    "an empty run": ("event.run_id", lambda made: made("n", success=True, run_id="")),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_call_that_can_not_be_an_event_is_refused(case: str) -> None:
    field, call = CALLS[case]
    with pytest.raises(InvalidValue) as caught:
        call(trace_of)
    assert caught.value.field == field


def test_an_output_is_measured_in_bytes() -> None:
    outputs: list[Any] = [None, "", "ä", b"abc", bytearray(4), memoryview(bytes(8)).cast("I")]
    sizes = [trace_of("n", success=True, output=one).output_bytes for one in outputs]
    assert sizes == [0, 0, 2, 3, 4, 8]


def test_metadata_may_hold_itself() -> None:
    event = trace_of("n", success=True, metadata={"a": ENDLESS, "artifact_uri": "x"})
    assert (event.metadata_keys, event.artifact_uris) == (["a", "artifact_uri"], ["x"])
