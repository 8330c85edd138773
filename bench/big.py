"""One store with a small and a big session, for cold starts and for counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import entries, wire
from bench.stand import Stand
from bench.work import MODEL, TOOL, Turn

if TYPE_CHECKING:
    from ledgerstone import Store

SMALL: Final = 1
BIG: Final = 2
SMALL_MESSAGES: Final = 100
TURNS_PER_COMMIT: Final = 25
MESSAGES_PER_TURN: Final = 4
OURS_NAME: Final = "big-ours"
FLOOR_NAME: Final = "big-floor"


def build_floor(stand: Stand) -> Path:
    path = stand.path(FLOOR_NAME)
    if not path.exists():
        remote = stand.start(entries.FLOOR, FLOOR_NAME)
        turns = stand.sizes.big_messages // MESSAGES_PER_TURN
        remote.ask(wire.Fill([(SMALL, SMALL_MESSAGES // MESSAGES_PER_TURN), (BIG, turns)]))
        remote.leave()
    return path


def build_ours(stand: Stand) -> Path:
    """Many messages per commit and no flushes: how it was written does not matter here."""
    from ledgerstone import Store

    path = stand.path(OURS_NAME)
    if path.exists():
        return path
    stand.say(f"building a store of {stand.sizes.big_messages:,} messages")
    with Store.open(str(path), durability="process") as store:
        write(store, stand.work.turns, stand.sizes.big_messages)
    return path


def write(store: Store, turns: list[Turn], messages: int) -> None:
    """The small session, and the big one with so many messages."""
    from bench.ours import session_id

    for number, count in ((SMALL, SMALL_MESSAGES), (BIG, messages)):
        store.sessions.create(id=session_id(number))
        for portion in portions(turns, count // MESSAGES_PER_TURN):
            draft = store.turns.begin(session_id(number))
            for turn in portion:
                say(draft, turn)
            draft.commit()


def portions(turns: list[Turn], count: int) -> Iterator[list[Turn]]:
    for start in range(0, count, TURNS_PER_COMMIT):
        end = min(start + TURNS_PER_COMMIT, count)
        yield [turns[place % len(turns)] for place in range(start, end)]


def say(draft: Any, turn: Turn) -> None:
    """The four messages and the usage of one turn, into a commit that holds several."""
    from ledgerstone import Usage, tool_call

    draft.user(turn.user)
    draft.assistant([turn.thought, tool_call(TOOL, turn.arguments, id=turn.call_id)])
    draft.tool(turn.call_id, turn.result, tool_name=TOOL)
    draft.assistant(turn.answer)
    draft.use(MODEL, Usage(turn.input_tokens, turn.output_tokens))
