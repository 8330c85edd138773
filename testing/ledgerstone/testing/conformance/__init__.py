"""The conformance suite: pytest classes over a `backend` fixture (see `ledgerstone.testing.bed`).

A backend that passes all of them keeps the promises of the contract that they name. Import the
classes into a test module that has the fixture:

    from ledgerstone.testing.conformance import *
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest


def _suite() -> dict[str, Any]:
    """Every test class of every module, by name; two of one name would hide each other."""
    found: dict[str, Any] = {}
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    # Plain asserts of a library tell nothing when they fail, unless pytest rewrites them; all are
    # named before the first is imported, since some of them import each other.
    pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in names))
    for name in names:
        module = importlib.import_module(f"{__name__}.{name}")
        for key, value in vars(module).items():
            if key.startswith("Test") and getattr(value, "__module__", "") == module.__name__:
                if key in found:
                    raise ImportError(f"two conformance classes are called {key}")
                found[key] = value
    return found


_classes = _suite()
globals().update(_classes)
__all__ = list(_classes)
