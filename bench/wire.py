"""What the parent asks a contender's process, and what it answers: one line of JSON each."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from bench.contender import Entry, History


class Start(msgspec.Struct, frozen=True, tag=True):
    """The first line: who to be."""

    entry: Entry
    path: str
    seed: int


class Fill(msgspec.Struct, frozen=True, tag=True):
    histories: list[History]


class Reopen(msgspec.Struct, frozen=True, tag=True):
    """Close and open again, so that everything written lies in the file."""


class Create(msgspec.Struct, frozen=True, tag=True):
    numbers: list[int]


class Commits(msgspec.Struct, frozen=True, tag=True):
    """One commit after the other, each timed."""

    numbers: list[int]


class Together(msgspec.Struct, frozen=True, tag=True):
    """All sessions at once, each `turns` commits in a row."""

    numbers: list[int]
    turns: int


class Jobs(msgspec.Struct, frozen=True, tag=True):
    """Enqueue, claim and complete `batches` batches of `size` items in each session."""

    numbers: list[int]
    batches: int
    size: int
    method: str = "jobs"


class Timed(msgspec.Struct, frozen=True, tag=True):
    """Call a method of the contender some times; `after` gets its answer, outside the clock."""

    method: str
    args: list[Any]
    times: int
    after: str = ""


class Leave(msgspec.Struct, frozen=True, tag=True):
    """The last line."""


Ask: TypeAlias = Start | Fill | Reopen | Create | Commits | Together | Jobs | Timed | Leave


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`started_s` and `ended_s` are of the machine's monotonic clock, which processes share.

    `cpu_s` is the processor time of the contender's process, without its server's.
    """

    samples_ms: list[float] = []
    errors: list[str] = []
    count: int = 0
    started_s: float = 0.0
    ended_s: float = 0.0
    cpu_s: float = 0.0
    failure: str | None = None


encode = msgspec.json.Encoder().encode
decode_ask = msgspec.json.Decoder(Ask).decode
decode_answer = msgspec.json.Decoder(Answer).decode
