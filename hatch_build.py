"""Writes the blocking half of the API before the package is built or installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WriteBlockingApi(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        spec = importlib.util.spec_from_file_location("make_sync", root / "tools" / "make_sync.py")
        assert spec is not None and spec.loader is not None
        module = sys.modules["make_sync"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.make(root / "src" / "ledgerstone")
