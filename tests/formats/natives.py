"""Natives of every format, made by the libraries themselves where there is one."""

from __future__ import annotations

from importlib import import_module

from tests.formats.values import Native


def natives(format: str) -> list[Native]:
    """All of them, in the form in which they are kept.

    A library is imported by the test that needs it, which knows what it warns about.
    """
    name = format.removeprefix("openai-").replace("-", "_")
    found: list[Native] = import_module(f"tests.formats.natives_{name}").NATIVES
    return found
