"""How else a place can be reached, and which test goes which of these ways in `make test`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from zlib import crc32

WAYS = (
    "file-reopened",
    "sqlite-reopened",
    "sqlite-two-processes",
    "postgres-async",
    "postgres-two-processes",
)


def ways_of(promises: Mapping[str, Collection[int]]) -> dict[str, set[str]]:
    """The ways of each test, by its name, given the promises that each proves.

    A test goes one way, and further ones while its promises have no other test there: of each
    promise some test goes each way. `make test-all` takes every test through all of them.
    """
    # The same way for a test, whatever else is collected with it.
    chosen = {name: {WAYS[crc32(name.encode()) % len(WAYS)]} for name in promises}
    proved = {
        (number, way) for name in promises for way in chosen[name] for number in promises[name]
    }
    for name, numbers in promises.items():
        for way in WAYS:
            more = {(number, way) for number in numbers} - proved
            if more:
                chosen[name].add(way)
                proved |= more
    return chosen
