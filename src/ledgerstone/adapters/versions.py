"""Which versions of a framework its adapter was tested with."""

from __future__ import annotations

import os
import re
import warnings
from importlib.metadata import PackageNotFoundError, version

from ledgerstone.errors import InvalidValue, NotSupported

SWITCH = "LEDGERSTONE_UNTESTED"
"""The environment variable that says what to do with a newer version."""
WARN, REFUSE, ALLOW = "warn", "refuse", "allow"

_warned: set[tuple[str, str]] = set()


class UntestedVersionWarning(UserWarning):
    """A framework is newer than the versions that its adapter was tested with."""


def require(package: str, least: tuple[int, ...], below: tuple[int, ...], extra: str) -> None:
    """NotSupported when the package is missing or older than what the adapter needs.

    `least` is included, `below` is not: require("langgraph", (1, 2), (2,), "langgraph"). A version
    from `below` on warns once per process; LEDGERSTONE_UNTESTED=refuse makes it NotSupported.
    """
    tested = f"{_text(least)} up to, not including, {_text(below)}"
    hint = f'pip install "ledgerstone[{extra}]"'
    try:
        found = version(package)
    except PackageNotFoundError:
        raise NotSupported(f"{package} is not installed", hint=hint) from None
    numbers = tuple(int(one) for one in re.findall(r"\d+", found.split("+")[0])[:3])
    if numbers < least:
        raise NotSupported(f"{package} {found} ({tested} is tested)", hint=hint)
    if numbers >= below:
        _newer(package, found, tested, f"{package}<{_text(below)}")


def _newer(package: str, found: str, tested: str, pinned: str) -> None:
    chosen = os.environ.get(SWITCH) or WARN
    if chosen not in (WARN, REFUSE, ALLOW):
        raise InvalidValue(SWITCH, f"{WARN}, {REFUSE} or {ALLOW} expected, got {chosen!r:.40}")
    if chosen == REFUSE:
        hint = f"pip install '{pinned}', or set {SWITCH}={WARN}"
        raise NotSupported(f"{package} {found} ({tested} is tested)", hint=hint)
    if chosen == WARN and (package, found) not in _warned:
        _warned.add((package, found))
        warnings.warn(
            f"{package} {found} is newer than what its adapter was tested with ({tested}); "
            f"{SWITCH}={REFUSE} in the environment refuses it, {SWITCH}={ALLOW} is silent",
            UntestedVersionWarning,
            stacklevel=4,
        )


def _text(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
