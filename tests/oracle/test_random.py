"""Random commits: the incremental counters and the chain hold whatever the order of events."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ledgerstone.commands.nodes import CountMessages, ReadMessages, VacuumSession
from ledgerstone.commands.sessions import CopySession, ReadSessionAt
from ledgerstone.commands.turns import Amendment, BranchMove, Rewind
from ledgerstone.errors import LedgerstoneError
from ledgerstone.records.sessions import Session
from tests.oracle.builders import Bench, S, T, event, said, turn

STEPS = 120


class Story:
    """One random life of a session, and what its messages were after every commit."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.bench = Bench(S)
        self.made = 0
        self.seen: dict[int, list[str]] = {}
        self.answers: list[tuple[Any, Any]] = []

    def known(self) -> str:
        return f"n{self.chance.randrange(max(self.made, 1))}"

    def nodes(self) -> list[Any]:
        found = []
        for _ in range(self.chance.randrange(4)):
            extra: dict[str, Any] = {"on_path": self.chance.random() < 0.8}
            if self.chance.random() < 0.2:
                extra["parent"] = self.chance.choice([None, self.known()])
            role = self.chance.choice(["user", "assistant", "system"])
            name = f"n{self.made}"
            plain = self.chance.random() < 0.2
            found.append(event(name, **extra) if plain else said(name, "", role, **extra))
            self.made += 1
        return found

    def parts(self) -> dict[str, Any]:
        chance = self.chance
        parts: dict[str, Any] = {"branch": chance.choice(["main", "main", "main", "b0", "b1"])}
        if chance.random() < 0.3:
            to = chance.choice([None, self.known(), self.known()])
            pop = chance.choice([0, 0, 1, 2])
            parts["rewind"] = Rewind(to, pop, supersede=chance.random() < 0.5)
        if chance.random() < 0.2:
            parts["tombstones"] = tuple(self.known() for _ in range(chance.randrange(1, 4)))
        if chance.random() < 0.2:
            parts["amendments"] = (Amendment(self.known(), b'{"is_summary":true}', b"s"),)
        if chance.random() < 0.3:
            name = chance.choice(["main", "b0", "b1"])
            fields: dict[str, Any] = chance.choice([{"create": True}, {"delete": True}, {}])
            aim: dict[str, Any] = chance.choice([{"to": self.known()}, {"to_branch": "main"}, {}])
            parts["branches"] = (BranchMove(name, **fields, **aim),)
        if chance.random() < 0.2:
            parts["state"] = {chance.choice("ab"): chance.choice([None, 1, 2])}
        return parts

    def step(self, number: int) -> None:
        before = self.bench.snapshot()
        command = turn(f"t{number}", *self.nodes(), **self.parts())
        try:
            answer = self.bench.write(command)
        except LedgerstoneError:
            assert self.bench.snapshot() == before
            return
        self.answers.append((command, answer))
        self.seen[answer.revision] = self.bench.texts()
        assert self.bench.verify().defects == []
        live = self.bench.read(ReadMessages(tenant=T, session=S))
        assert self.bench.read(CountMessages(tenant=T, session=S)) == len(live)


@pytest.mark.parametrize("nth", range(12))
def test_a_random_life_keeps_every_invariant(seed: int, nth: int) -> None:
    story = Story(random.Random(seed + nth))
    bench = story.bench
    for number in range(STEPS):
        story.step(number)
    for revision, texts in story.seen.items():
        view = bench.read(ReadSessionAt(tenant=T, session=S, revision=revision))
        assert [message.text for message in view.messages] == texts
    for command, answer in story.answers:
        again = bench.write(command)
        assert again.replayed
        assert (again.leaf, again.placed, again.affected) == (
            answer.leaf,
            answer.placed,
            answer.affected,
        )
    for target, whole in (("copy", True), ("fork", False)):
        made = Session(id=target)
        bench.write(CopySession(tenant=T, source=S, target=made, whole=whole, turn="made"))
        assert bench.texts(target) == bench.texts()
        assert bench.verify(target).defects == []
    bench.write(VacuumSession(tenant=T, session=S, unreachable=True, notes_before_us=1 << 60))
    assert bench.texts() == bench.texts("fork")
    assert bench.verify().defects == []
