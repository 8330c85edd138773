"""The contenders that are not peers: the floors and Ledgerstone's two faces."""

from __future__ import annotations

from typing import Final

from bench.contender import Entry

FLOOR: Final = Entry(
    key="floor",
    title="floor, caller's thread",
    kind="floor",
    opener="bench.floors:Floor",
)
GROUP: Final = Entry(
    key="group",
    title="floor, writer thread",
    kind="floor",
    opener="bench.floor_group:open_group",
)
LOCKED: Final = Entry(
    key="locked",
    title="floor, writer thread and flock",
    kind="floor",
    opener="bench.floor_group:open_locked",
)
# The same code on a copy of the same file: how far its ratio is from 1 is the noise of the run.
FLOOR_AGAIN: Final = Entry(
    key="floor-again",
    title="the same floor again (A/A)",
    kind="floor",
    opener="bench.floors:Floor",
)
GROUP_AGAIN: Final = Entry(
    key="group-again",
    title="the same floor again (A/A)",
    kind="floor",
    opener="bench.floor_group:open_group",
)
LOCKED_AGAIN: Final = Entry(
    key="locked-again",
    title="the same floor again (A/A)",
    kind="floor",
    opener="bench.floor_group:open_locked",
)
OURS: Final = Entry(
    key="ours",
    title="ours, blocking",
    kind="ours",
    opener="bench.ours:open_blocking",
    needs="ledgerstone",
)
OURS_ASYNC: Final = Entry(
    key="ours-async",
    title="ours, async",
    kind="ours",
    opener="bench.ours:open_async",
    needs="ledgerstone",
)
