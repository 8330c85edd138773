"""Several processes of one contender on one file, each with sessions of its own."""

from __future__ import annotations

from collections.abc import Callable

from bench import wire
from bench.contender import Entry
from bench.remote import Remote, leave_all
from bench.stand import Stand


class Crew:
    def __init__(self, stand: Stand, entry: Entry, name: str) -> None:
        sizes = stand.sizes
        each = sizes.sessions_per_process
        self.sessions = [
            list(range(1 + place * each, 1 + (place + 1) * each))
            for place in range(sizes.processes)
        ]
        self.remotes: list[Remote] = []
        try:
            self.remotes.append(stand.start(entry, name))
            created = [number for numbers in self.sessions for number in numbers]
            self.remotes[0].ask(wire.Create(created))
            # Some make their tables with the first commit; that is no work for four at once.
            self.remotes[0].ask(wire.Commits(created[:1]))
            self.remotes += stand.start_all([(entry, name)] * (sizes.processes - 1))
        except BaseException:
            self.leave()
            raise

    @property
    def described(self) -> str:
        return f"{len(self.sessions)} processes x {len(self.sessions[0])} sessions"

    def ask(self, of: Callable[[list[int]], wire.Ask]) -> list[wire.Answer]:
        """All of them at once, each for its own sessions."""
        for remote, sessions in zip(self.remotes, self.sessions, strict=True):
            remote.tell(of(sessions))
        return [remote.hear() for remote in self.remotes]

    def leave(self) -> None:
        leave_all(self.remotes)


def span_s(answers: list[wire.Answer]) -> float:
    """From the first that began to the last that ended."""
    return max(one.ended_s for one in answers) - min(one.started_s for one in answers)
