"""Every bar on PostgreSQL, in one place; each is a ratio to the floor that its row names."""

from __future__ import annotations

from typing import Final

from bench.measure import Bar

LONE: Final = Bar("at most", 1.3)
LONE_BARE: Final = Bar("at most", 1.8)
GROWTH: Final = Bar("at most", 1.15)
LOAD: Final = Bar("at most", 1.3)
LAST: Final = Bar("at most", 2)
LAST_FLAT: Final = Bar("at most", 1.5)
BUSY: Final = Bar("at least", 0.4)
BUSY_BEST_PEER: Final = Bar("at least", 10)
PROCESSES: Final = Bar("at least", 0.6)
QUEUE_SESSION: Final = Bar("at least", 0.4)
QUEUE_MANY: Final = Bar("at least", 0.2)
QUEUE_PEERS: Final = Bar("at least", 10)
DISK: Final = Bar("at most", 1.6)
LISTS: Final = Bar("at most", 1.5)
STATS: Final = Bar("at most", 1.5)
TAKING: Final = Bar("at most", 1.5)
ROUND_TRIPS: Final = Bar("at most", 1)
RECALL: Final = Bar("at least", 0.95)
NEAREST: Final = Bar("at most", 1)
# Messages per second, not a ratio.
COPY: Final = Bar("at least", 10_000)
COPY_FILES: Final = Bar("at least", 20_000)
