"""Which versions of a framework its adapter was tested with."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from ledgerstone.errors import NotSupported


def require(package: str, least: tuple[int, ...], below: tuple[int, ...], extra: str) -> None:
    """NotSupported when the package is missing or of a version that was not tested.

    `least` is included, `below` is not: require("langgraph", (1, 2), (2,), "langgraph").
    """
    tested = f"{_text(least)} up to, not including, {_text(below)}"
    hint = f'pip install "ledgerstone[{extra}]"'
    try:
        found = version(package)
    except PackageNotFoundError:
        raise NotSupported(f"{package} is not installed", hint=hint) from None
    numbers = tuple(int(one) for one in re.findall(r"\d+", found.split("+")[0])[:3])
    if not least <= numbers < below:
        raise NotSupported(f"{package} {found} ({tested} is tested)", hint=hint)


def _text(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
