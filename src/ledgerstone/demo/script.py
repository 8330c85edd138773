"""The conversation: what a user, a model and three tools say while a trip is booked.

A step is one message and one commit. Which step comes next follows from the stored history
alone, so whoever takes over needs nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ledgerstone import Message

INTERRUPTED = "interrupted"
MODEL = "scripted-1"


@dataclass(frozen=True)
class Step:
    """One message: a user's words, a tool call, its result, or an answer that is streamed."""

    kind: Literal["user", "call", "result", "answer"]
    text: str = ""
    tool: str = ""
    data: Any = None
    call_id: str = ""


def _use(tool: str, call_id: str, arguments: Any, result: Any) -> tuple[Step, Step]:
    return (
        Step("call", tool=tool, data=arguments, call_id=call_id),
        Step("result", tool=tool, data=result, call_id=call_id),
    )


STEPS: tuple[Step, ...] = (
    Step("user", "A weekend in Oslo, please: flight and hotel, at most 400 euros."),
    *_use(
        "search",
        "c1",
        {"flight": "Berlin to Oslo", "on": "Friday"},
        {"flight": "SK 1472", "leaves": "09:40", "eur": 128},
    ),
    *_use("search", "c2", {"hotel": "Oslo", "nights": 2}, {"hotel": "Harbour Inn", "eur": 210}),
    Step(
        "answer",
        "The 9:40 flight for 128 and two nights at the Harbour Inn for 210, "
        "that is 338 euros. Shall I book both?",
    ),
    Step("user", "Yes, book both."),
    *_use("reserve", "c3", {"flight": "SK 1472", "hotel": "Harbour Inn"}, {"code": "K7-OSLO"}),
    *_use("pay", "c4", {"eur": 338, "code": "K7-OSLO"}, {"receipt": "R-2291"}),
    Step(
        "answer",
        "Done. Flight SK 1472 leaves on Friday at 9:40, the Harbour Inn expects you for two "
        "nights, and 338 euros are paid. Your booking code is K7-OSLO.",
    ),
    Step("user", "Perfect. What is left of my 400 euros?"),
    Step("answer", "62 euros: enough for the boat to the islands. Have a good time!"),
)
APPROVED_TOOL = "pay"
"""The tool that may only be called when a person said yes."""
FATAL_STEP = 11
"""The answer in the middle of which the first worker is killed; the money is paid by then."""


def steps_done(history: Sequence[Message]) -> int:
    """How many steps the history holds; the two halves of an interrupted answer are one."""
    return sum(message.body.finish_reason != INTERRUPTED for message in history)


def tokens(text: str) -> list[str]:
    """The text as a model would stream it."""
    return re.findall(r"\s*\S+", text)
