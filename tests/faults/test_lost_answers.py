"""Whoever follows the error of a lost answer has everything once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ledgerstone import Message, Store, user
from ledgerstone.api_sync.commits import REPEATS_MAX
from ledgerstone.commands import Command
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.errors import OutcomeUnknown
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from ledgerstone.testing.wrappers import Wrapper
from tests.faults.places import Place, every_place, opened

pytestmark = [pytest.mark.faults, pytest.mark.slow]

SEED = 20261118
LOST_PERCENT = 70
TRIES_MAX = 60


class LosesAnswers(Wrapper):
    """Loses most answers of commits, performed or not; `sent` counts what one call sends."""

    def __init__(self, inner: Backend, random: Random) -> None:
        super().__init__(inner)
        self._random = random
        self.lost = self.sent = 0

    def write(self, command: Command[Any]) -> Any:
        if not isinstance(command, CommitTurn):
            return self.inner.write(command)
        self.sent += 1
        if self._random.randrange(100) >= LOST_PERCENT:
            return self.inner.write(command)
        self.lost += 1
        if self._random.randrange(2):
            self.inner.write(command)
        raise OutcomeUnknown("the answer was lost")


def append_again(store: Store, said: Message) -> None:
    """The same object at once, without a look."""
    store.messages.append("s", said)


def append_anew(store: Store, said: Message) -> None:
    """Sabotage: the text as a new message."""
    store.messages.append("s", user(said.text))


def say(
    store: Store, losing: LosesAnswers, text: str, again: Callable[[Store, Message], None] | None
) -> list[str]:
    """Append until it is known to be stored; None asks for the outcome before each repeat."""
    said = user(text)
    send: Callable[[Store, Message], None] = append_again
    for _ in range(TRIES_MAX):
        losing.sent = 0
        try:
            send(store, said)
        except OutcomeUnknown as error:
            if losing.sent != 1 + REPEATS_MAX:
                return [f"{text}: one call sent {losing.sent} commits"]
            if again is None and store.turns.outcome(error) is not None:
                return []
            send = again or append_again
        else:
            return []
    return [f"{text}: no end after {TRIES_MAX} tries"]


def run(
    store: Store,
    losing: LosesAnswers,
    count: int,
    ways: tuple[Callable[[Store, Message], None] | None, ...],
) -> list[str]:
    """What went wrong with `count` messages."""
    store.sessions.create(id="s")
    wrong = []
    for n in range(count):
        wrong += say(store, losing, str(n), ways[n % len(ways)])
    found = Counter(message.text for message in store.messages.history("s"))
    for n in range(count):
        if found[str(n)] != 1:
            wrong.append(f"{n}: stored {found[str(n)]} times")
    return wrong


@pytest.mark.promise(230)
@every_place
def test_nothing_is_stored_twice_or_lost(
    place: Place, tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    with (
        scoreboard.line("lost answers: repeated or asked for", place.name, SEED) as line,
        opened(place, tmp_path) as backend,
    ):
        losing = LosesAnswers(backend, Random(SEED))
        line.n = scale(60, 2_000)
        line.violations += run(Store(losing), losing, line.n, (append_again, None))
        line.note = f"{losing.lost:,} answers lost"


@every_place
def test_control_a_new_message_for_each_try_is_found(
    place: Place, tmp_path: Path, scoreboard: Scoreboard
) -> None:
    with (
        scoreboard.line("lost answers: said anew", place.name, SEED, control=True) as line,
        opened(place, tmp_path) as backend,
    ):
        losing = LosesAnswers(backend, Random(SEED))
        line.n = 60
        line.violations += run(Store(losing), losing, line.n, (append_anew,))
        assert all("stored" in text for text in line.violations)
