"""Everything a run found out, as it is printed, encoded and published."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bench.machine import Machine
from bench.measure import Row

METHOD = (
    "Every contender runs in a process of its own; they take turns in every round, in a new order "
    "each time. p10-p90 is over all samples; a ratio is the median of the rounds' own ratios, "
    "quiet the ratio of the best tenths (a slow disk hides the rest of a commit and draws ratios "
    "towards 1). A verdict needs both: unclear means that they disagree about the bar. A slow peer "
    "sits out once it has used its share of the time; its ratio is over the rounds it was in."
)


class Report(msgspec.Struct, kw_only=True):
    seed: int
    kind: str
    payload_bytes: float
    machine: Machine
    seconds: float = 0.0
    notes: list[str] = []
    postgres_notes: list[str] = []
    adapter_notes: list[str] = []
    peers: dict[str, str] = {}
    took_s: dict[str, float] = {}
    failures: list[str] = []
    rows: list[Row] = []

    @property
    def noise(self) -> tuple[float, float] | None:
        """The lowest and highest ratio of a floor to itself."""
        found = [row.ratio for row in self.rows if row.verdict == "noise" and row.ratio is not None]
        return (min(found), max(found)) if found else None

    def on_sqlite(self) -> Report:
        return self._part(lambda name: name[0] not in "AP", self.notes)

    def on_postgres(self) -> Report:
        return self._part(lambda name: name.startswith("P"), self.postgres_notes)

    def of_adapters(self) -> Report:
        return self._part(lambda name: name.startswith("A"), self.adapter_notes)

    def _part(self, has: Callable[[str], bool], notes: list[str]) -> Report:
        rows = [row for row in self.rows if has(row.workload)]
        there = {row.contender for row in rows}
        took_s = {name: seconds for name, seconds in self.took_s.items() if has(name)}
        return msgspec.structs.replace(
            self,
            rows=rows,
            took_s=took_s,
            seconds=sum(took_s.values()),
            peers={title: note for title, note in self.peers.items() if title in there},
            notes=notes,
            postgres_notes=[],
            adapter_notes=[],
        )

    def remarks(self) -> list[str]:
        """The paragraphs below the table: the machine, the run, the method, the noise."""
        turn = f"a turn is {self.payload_bytes:,.0f} B of JSON, sizes +-50 %"
        run = f"{self.kind} run, seed {self.seed}; {turn}; {self.seconds:.0f} s in all"
        took = ", ".join(f"{name} {seconds:.0f}" for name, seconds in self.took_s.items())
        run += f" ({took})"
        parts = [
            str(self.machine),
            "; ".join([run, *self.notes, *self.postgres_notes, *self.adapter_notes]),
            METHOD,
            self._noise(),
        ]
        parts += [f"FAILED: {failure}" for failure in self.failures]
        if self.machine.filesystem in ("tmpfs", "ramfs"):
            parts.append("WARNING: this is memory, not a disk; nothing was durable. Use --dir.")
        return parts

    def peer_lines(self) -> list[str]:
        """How each peer keeps its file, and what it does not write."""
        return [f"- {title}: {note}" for title, note in self.peers.items()]

    def _noise(self) -> str:
        general = "Differences under 1.3x are noise on a shared machine."
        if self.noise is None:
            return general
        low, high = self.noise
        return (
            f"Noise: the floor against itself (A/A) came out at {low:.2f} to {high:.2f}. {general}"
        )
