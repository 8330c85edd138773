"""Writes the blocking half of the API before the package is built or installed."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WriteBlockingApi(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        run_path(str(root / "tools" / "make_sync.py"))["make"](root / "src" / "ledgerstone")
