"""The turn that every contender commits: four messages, one run, one use of a model.

Sizes vary by half to either side, since rows of one size pack pages better than real ones do.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

USER_BYTES = 320
CALL_BYTES = 150
RESULT_BYTES = 775
ANSWER_BYTES = 1150
SPREAD = 0.5
TURNS_IN_POOL = 512
MODEL = "model-1"
TOOL = "search"

# Ordinary text: it has the word lengths and the few escapes of a chat, unlike random letters.
VOCABULARY = (
    "the of and a to in is you that it he was for on are as with his they I at be this have from "
    "or one had by word but not what all were we when your can said there use an each which she "
    'do how their if will up other about out many then them these so some her would make "like" '
    "him into time has look two more write go see number no way could people my than first water "
    "been call who oil its now find long down day did get come made may part over new sound take "
    "flight Oslo booking confirmed, depart 09:40 arrive 11:05 fare 1,240.00 EUR seat 14C gate B7.\n"
)
WORDS = VOCABULARY.split(" ")


class Text(msgspec.Struct, tag="text", tag_field="type"):
    text: str


class ToolCall(msgspec.Struct, tag="tool-call", tag_field="type"):
    id: str
    name: str
    arguments: dict[str, Any]


class ToolResult(msgspec.Struct, tag="tool-result", tag_field="type"):
    call_id: str
    content: str
    name: str


class Message(msgspec.Struct):
    """The typed object that a floor loads; the same fields as a message of Ledgerstone needs."""

    role: str
    parts: list[Text | ToolCall | ToolResult]


class Turn(msgspec.Struct, frozen=True):
    """What an agent did in one turn, before anything is encoded."""

    user: str
    thought: str
    call_id: str
    arguments: dict[str, Any]
    result: str
    answer: str
    input_tokens: int
    output_tokens: int

    def messages(self) -> list[Message]:
        return [
            Message("user", [Text(self.user)]),
            Message(
                "assistant", [Text(self.thought), ToolCall(self.call_id, TOOL, self.arguments)]
            ),
            Message("tool", [ToolResult(self.call_id, self.result, TOOL)]),
            Message("assistant", [Text(self.answer)]),
        ]

    def bodies(self) -> list[bytes]:
        return [encode(message) for message in self.messages()]

    def payload_bytes(self) -> int:
        """The JSON of the four messages: the measure that bytes on disk are compared with."""
        return sum(len(body) for body in self.bodies())


class Work:
    """A pool of turns from one seed, handed out in the same order to every contender."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        chance = random.Random(seed)
        self.turns = [_turn(chance) for _ in range(TURNS_IN_POOL)]
        self.payload_bytes = sum(turn.payload_bytes() for turn in self.turns) / TURNS_IN_POOL

    def turn(self, number: int) -> Turn:
        return self.turns[number % TURNS_IN_POOL]


def _turn(chance: random.Random) -> Turn:
    return Turn(
        user=_text(chance, USER_BYTES),
        thought=_text(chance, CALL_BYTES // 3),
        call_id=f"call_{chance.getrandbits(96):024x}",
        arguments={"query": _text(chance, CALL_BYTES), "limit": chance.randrange(5, 50)},
        result=_text(chance, RESULT_BYTES),
        answer=_text(chance, ANSWER_BYTES),
        input_tokens=chance.randrange(400, 9000),
        output_tokens=chance.randrange(50, 900),
    )


def _text(chance: random.Random, mean_bytes: int) -> str:
    size = int(mean_bytes * chance.uniform(1 - SPREAD, 1 + SPREAD))
    words = chance.choices(WORDS, k=size // 3 + 1)
    return " ".join(words)[:size]


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Message).decode
