"""How much is built and measured: the full bench, the quick one, and one for the tests."""

from __future__ import annotations

from typing import Final

import msgspec


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of sessions, turns and messages; seconds are for measuring, building comes on top."""

    shallow_depth: int = 100
    deep_depth: int = 1000
    shallow: int = 16
    deep: int = 4
    peer_shallow: int = 4
    slow_peers_deep: bool = True
    busy: int = 64
    busy_turns: int = 12
    busy_turns_slow: int = 2
    processes: int = 4
    sessions_per_process: int = 8
    peers_in_processes: bool = True
    queue_batches: int = 10
    big_messages: int = 100_000
    listed: int = 1_000_000
    waiting: int = 100_000
    vectors: int = 50_000
    few_vectors: int = 5_000
    indexed: int = 50_000
    streamed: int = 1_000_000
    copied: int = 60_000
    rewriting_turns: int = 100
    adapter_turns: int = 200
    adapter_listed: int = 10_000
    pieces_mb: int = 256
    piece_rounds: int = 5
    least_rounds: int = 10
    peer_rounds: int = 3
    cold_rounds: int = 5
    seconds: float = 270.0


FULL: Final = Sizes()
QUICK: Final = Sizes(
    shallow=4,
    deep=1,
    peer_shallow=1,
    slow_peers_deep=False,
    busy_turns_slow=1,
    peers_in_processes=False,
    queue_batches=4,
    big_messages=20_000,
    listed=100_000,
    waiting=10_000,
    vectors=20_000,
    few_vectors=2_000,
    indexed=4_000,
    streamed=100_000,
    copied=12_000,
    rewriting_turns=30,
    adapter_turns=80,
    adapter_listed=2_000,
    pieces_mb=64,
    piece_rounds=2,
    least_rounds=4,
    peer_rounds=1,
    cold_rounds=2,
    seconds=22.0,
)
TINY: Final = Sizes(
    shallow_depth=13,
    deep_depth=20,
    shallow=1,
    deep=1,
    busy=4,
    busy_turns=2,
    processes=2,
    sessions_per_process=2,
    queue_batches=1,
    big_messages=200,
    listed=2_000,
    waiting=200,
    vectors=300,
    few_vectors=100,
    indexed=300,
    streamed=2_000,
    copied=400,
    adapter_turns=16,
    adapter_listed=200,
    pieces_mb=2,
    piece_rounds=1,
    least_rounds=1,
    peer_rounds=1,
    cold_rounds=1,
    seconds=0.2,
)
