"""docs/blobs.md: its numbers and names are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from ledgerstone.blobs import object_calls
from ledgerstone.blobs.object_errors import GRANTS
from ledgerstone.blobs.opening import OBJECT_SCHEMES

PAGE = Path(__file__).parents[2] / "docs" / "blobs.md"
TEXT = PAGE.read_text("utf-8")


def test_the_numbers() -> None:
    said = " ".join(TEXT.split())
    connect, request = object_calls.CONNECT_S, object_calls.REQUEST_S
    repeats, within = object_calls.RETRIES_MAX, object_calls.RETRY_S
    assert f"{connect:.0f} s to connect, {request:.0f} s for a request" in said
    assert f"at most {repeats} repeats within {within:.0f} s" in said
    assert f"parts of {object_calls.PART_BYTES >> 20} MiB" in said


def test_every_right_and_scheme_is_named() -> None:
    rights = set(re.findall(r"s3:\w+", " ".join(GRANTS.values())))
    assert rights <= set(re.findall(r"s3:\w+", TEXT))
    assert all(f"{scheme}://" in TEXT for scheme in OBJECT_SCHEMES)
