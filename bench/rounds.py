"""Round after round, the contenders in a new order each time, until the time is up."""

from __future__ import annotations

import random
import time
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


class Rounds:
    """Rounds for some seconds, at least `least` and at most `most`.

    A slow peer may not starve the others: whoever has used up `allowance_s` in a case sits out
    the rest, after `peer_least` rounds. Ratios pair the rounds in which both took part.
    """

    def __init__(
        self,
        seconds: float,
        *,
        least: int = 2,
        most: int = 10_000,
        peer_least: int = 1,
        allowance_s: float = 1e9,
    ) -> None:
        self.end = time.monotonic() + seconds
        self.least = least
        self.most = most
        self.peer_least = peer_least
        self.allowance_s = allowance_s
        self.number = 0
        self.spent_s: dict[Hashable, float] = {}
        self.taken: dict[Hashable, int] = {}
        self.chance = random.Random(0)

    def __iter__(self) -> Iterator[int]:
        while self.number < self.least or (self.number < self.most and time.monotonic() < self.end):
            yield self.number
            self.number += 1

    def order(self, contenders: Sequence[T]) -> list[T]:
        return self.chance.sample(list(contenders), len(contenders))

    def sits_out(self, case: Hashable) -> bool:
        enough = self.taken.get(case, 0) >= self.peer_least
        return enough and self.spent_s.get(case, 0.0) >= self.allowance_s

    def spend(self, case: Hashable, seconds: float) -> None:
        self.spent_s[case] = self.spent_s.get(case, 0.0) + seconds
        self.taken[case] = self.taken.get(case, 0) + 1
