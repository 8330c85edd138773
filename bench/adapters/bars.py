"""Every bar of the adapters, in one place; each is a ratio to what its row names.

A framework's loop costs the same whoever stores it. So the loop on something that only keeps
Python objects is subtracted from both sides first, where there is a loop.
"""

from __future__ import annotations

from typing import Final

from bench.measure import Bar

# Of the framework's own saver: five times as fast, and twice with nothing in memory yet.
SAVER_WARM: Final = Bar("at most", 0.2)
SAVER_COLD: Final = Bar("at most", 0.5)
# Of the text that was said.
DISK: Final = Bar("at most", 3)
# Of the growth in the first quarter: what a turn adds does not grow with the turns before it.
DISK_FLAT: Final = Bar("at most", 1.5)
# Of the framework's own persistence: moving to ours costs nothing.
RUNNER: Final = Bar("at most", 1)
EVENTS: Final = Bar("at most", 1)
LOAD: Final = Bar("at most", 1)
SAVE: Final = Bar("at most", 1)
LISTS: Final = Bar("at most", 1.5)
