"""How the demo looks: one line per event, a growing line while an answer is streamed."""

from __future__ import annotations

import json
import shlex
import textwrap
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ledgerstone.cli.output import plural
from ledgerstone.demo.audit import Summary
from ledgerstone.demo.worker import Report
from ledgerstone.records.recovery import Recovery
from ledgerstone.records.tickets import Ticket

APPROVER = "ada"
NAME_CHARS = 9
MARK_CHARS = 9
KIND_CHARS = 8
STYLES = {
    "worker 1": "cyan",
    "worker 2": "green",
    "store": "magenta",
    APPROVER: "yellow",
    "check": "bold",
}
INTRO = (
    "An agent books a trip. It will be killed with -9 in the middle of a turn;",
    "another worker has to go on from what the store acknowledged.",
)


class Screen:
    """Lines on a console; without a terminal they are plain and nothing moves."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._speaker = ""

    def opening(self, place: str) -> None:
        """What is going to happen, and where."""
        self._console.print("Ledgerstone demo", style="bold")
        for sentence in INTRO:
            self._console.print(sentence, style="dim")
        self._console.print(f"Everything is kept in {place}", style="dim", soft_wrap=True)

    def started(self, name: str, pid: int, *, revived: bool) -> None:
        what = "a process again: revived" if revived else "a process"
        self._line(name, "starts", f"{what}, pid {pid}")

    def said(self, name: str, report: Report, turns: int) -> None:
        """One report of a worker."""
        if report.event == "token":
            self._grow(name, report.text)
        elif report.event == "turn":
            self.still()
            kind, text = _message(report)
            self._line(name, f"saved {turns:>2}", text, "green", kind)
        elif report.event in _NOTICES:
            self.still()
            mark, text, style = _NOTICES[report.event]
            self._line(name, mark, text.format(r=report, n=len(report.text)), style)
        elif report.lease is not None:
            woken = "woken by the answer, " if report.event == "woken" else ""
            text = f"the session: {woken}its writes carry fence {report.lease.fence}"
            self._line(name, "owns", text, "bold")

    def approved(self, ticket: Ticket) -> None:
        """A person decided; the worker is woken by the same commit."""
        self._line(APPROVER, "approves", _call(ticket.tool, ticket.arguments), "bold")

    def killed(self, name: str, pid: int, text: str) -> None:
        """The end of a worker in the middle of a word."""
        self.still()
        self._line(name, "writing", text, "yellow", "answer")
        self._line(name, "KILLED", f"kill -9 {pid}, in the middle of the turn", "bold red")

    def found(self, left: Recovery) -> None:
        """What is on the disk after the kill."""
        self._line("store", "holds", f"{left.revision} turns, all of them acknowledged")
        if left.drafts:
            length = len(left.drafts[0].text)
            kept = f"the first {length} characters of the unfinished answer, as a draft"
            self._line("store", "holds", kept)
        if left.lease is not None:
            owner = f"worker 1, fence {left.lease.fence}"
            self._line("store", "holds", f"the lease of {owner}, until it runs out")

    def closing(self, summary: Summary) -> None:
        """What was read back, and the count, which is the last line."""
        found = plural(len(summary.defects), "defect") if summary.defects else "no defects"
        self._line("check", "reads", f"the store back: verify finds {found}")
        for defect in summary.defects:
            self._line("check", "DEFECT", defect, "bold red")
        paid = f"{plural(summary.payments, 'payment')}, approved by {summary.approved_by}"
        ended = "finished" if summary.finished else "NOT finished"
        self._line("check", "counts", f"{paid}; the conversation is {ended}")
        fenced = "was fenced" if summary.fenced else "was NOT fenced"
        wrote = plural(summary.unexpected, "turn") if summary.unexpected else "nothing"
        self._line("check", "counts", f"the revived worker {fenced} and wrote {wrote}")
        if summary.store is not None:
            place = shlex.quote(summary.store)
            self._line("check", "kept", f"ledgerstone tree {summary.session} --store {place}")
        else:
            self._line("check", "removed", "the store; --keep leaves it there to be looked at")
        self._console.print()
        style = "bold green" if summary.ok else "bold red"
        counts = (
            f"{name} {getattr(summary, name)}" for name in ("acknowledged", "lost", "doubled")
        )
        self._console.print(", ".join(counts), style=style, highlight=False)

    def _line(self, who: str, mark: str, text: str, style: str = "", kind: str = "") -> None:
        """One event; in a terminal, long words go on below where they began."""
        if who != self._speaker:
            self._console.print()
            self._speaker = who
        lead = f"{kind:<{KIND_CHARS}} " if kind else ""
        if self._console.is_terminal:
            indent = NAME_CHARS + MARK_CHARS + len(lead)
            room = max(20, self._console.width - indent - 1)
            text = ("\n" + " " * indent).join(textwrap.wrap(text, room))
        self._console.print(self._laid_out(who, mark, lead + text, style), soft_wrap=True)

    def _laid_out(self, who: str, mark: str, text: str, style: str) -> Text:
        return Text.assemble(
            (f"{who:<{NAME_CHARS}}", STYLES.get(who, "")),
            (f"{mark:<{MARK_CHARS}}", style),
            text,
        )

    def _grow(self, name: str, text: str) -> None:
        """The answer as far as it goes; the end stays visible when the line gets too long."""
        if not self._console.is_terminal:
            return
        if name != self._speaker:
            self._console.print()
            self._speaker = name
        room = max(20, self._console.width - NAME_CHARS - MARK_CHARS - KIND_CHARS - 2)
        tail = text if len(text) <= room else "…" + text[1 - room :]
        line = self._laid_out(name, "writing", f"{'answer':<{KIND_CHARS}} {tail}", "yellow")
        if self._live is None:
            self._live = Live(console=self._console, transient=True, refresh_per_second=20)
            self._live.start()
        self._live.update(line, refresh=True)

    def still(self) -> None:
        """Nothing moves any more."""
        if self._live is not None:
            self._live.stop()
            self._live = None


_NOTICES = {
    "asks": ("asks", "for approval, lets go of the session and waits to be woken", "yellow"),
    "waiting": (
        "waits",
        "the lease of fence {r.fence} lives for another {r.left_s:.1f} s",
        "yellow",
    ),
    "adopts": ("adopts", "the draft of {n} characters, and finishes the sentence", ""),
    "discards": ("discards", "the draft of {n} characters, and will say it again", ""),
    "believes": ("commits", "as if it had never died, still under fence {r.fence}", "yellow"),
    "fenced": (
        "FENCED",
        "fence {r.yours} is stale, the session belongs to fence {r.current}",
        "bold red",
    ),
    "finished": ("releases", "the session; the conversation is over", ""),
}


def _message(report: Report) -> tuple[str, str]:
    """Who speaks, and the words."""
    if report.kind == "call":
        return "calls", _call(report.tool, report.data)
    if report.kind == "result":
        return "returns", json.dumps(report.data)
    return report.kind, report.text


def _call(tool: str, arguments: dict[str, Any]) -> str:
    return f"{tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
