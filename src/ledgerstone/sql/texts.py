"""The .sql files beside this one.

Read by path: importlib.resources would work from within a zip file too, but importing it costs more
than everything else that opening a store reads.
"""

from __future__ import annotations

import os

_HERE = os.path.dirname(__file__)


def sql_files(*folder: str) -> list[tuple[str, str]]:
    """Name and text of every .sql file of a folder, by name."""
    where = os.path.join(_HERE, *folder)
    found = []
    for name in sorted(os.listdir(where)):
        if name.endswith(".sql"):
            with open(os.path.join(where, name), encoding="utf-8") as file:
                found.append((name, file.read()))
    return found
