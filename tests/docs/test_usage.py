"""docs/usage.md names what there is."""

from __future__ import annotations

from pathlib import Path

from ledgerstone.records.stats import BUDGET_MODES, GROUPINGS, PERIODS
from ledgerstone.rules.prices import SEPARATORS, Price

PAGE = Path(__file__).parents[2] / "docs" / "usage.md"
TEXT = PAGE.read_text("utf-8")


def test_every_name_is_there() -> None:
    said = " ".join(TEXT.split())
    assert all(f" {name}" in said for name in (*GROUPINGS, *PERIODS))
    assert all(f'mode="{mode}"' in said for mode in BUDGET_MODES)
    assert " ".join(SEPARATORS) in said
    assert all(name in said for name in Price.__struct_fields__ if name != "currency")
