"""A conversation over hundreds of turns: it is compacted when it grows, and nothing is lost.

The session itself says when: its settings are stored with it. The model here is a function; what
it is sent is what matters. A second session holds the same conversation without compaction.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from ledgerstone import Message, Store, tool_call

TURNS = 300
SETTINGS = {"auto_compact": True, "auto_compact_threshold": 0.8, "max_context_length": 8_000}


def summarise(messages: list[Message]) -> str:
    """A model does this too. The summary before is among them, so nothing is read twice."""
    return f"{len(messages)} messages; the last one said: {messages[-1].text[:40]}"


def talk(store: Store, session: str, n: int) -> None:
    """One turn: a question, a wordy tool now and then, an answer."""
    with store.turns.begin(session) as turn:
        turn.user(f"What about stop {n}?")
        if n % 10 == 0:
            turn.assistant(parts=[tool_call("timetable", {"stop": n}, id=f"call-{n}")])
            turn.tool(f"call-{n}", f"{n % 24:02}:40 " * 300, tool_name="timetable")
        turn.assistant(f"Stop {n} has a museum and a station.")


def compact(store: Store, session: str) -> None:
    """The newest turn stays as it was said; what stands before it becomes a summary."""
    context = store.messages.context(session)
    newest = max(n for n, message in enumerate(context.messages) if message.role == "user")
    run = store.runs.create(session, agent="summary")
    with store.turns.begin(session, run_id=run) as turn:
        _, summary = turn.compact(
            summarise(context.messages[:newest]),
            tail_start=context.messages[newest],
            previous=context,
        )
        turn.run("done", input={"session": session, "compacted_snapshot": summary.id})


def main(folder: Path) -> None:
    with Store.open(folder / "agent.db") as store:
        store.sessions.create(id="trip", document={"config": SETTINGS})
        store.sessions.create(id="plain")
        for session in ("trip", "plain"):
            store.messages.append(session, {"role": "system", "content": "You plan a trip."})
        compactions = 0
        for n in range(1, TURNS + 1):
            talk(store, "trip", n)
            talk(store, "plain", n)
            if store.messages.should_compact("trip"):
                compact(store, "trip")
                compactions += 1
            if n % 100 == 0:
                short, long = (store.messages.context(id).tokens for id in ("trip", "plain"))
                print(f"turn {n}: {short} tokens with compaction, {long} without")

    with Store.open(folder / "agent.db") as store:
        context = store.messages.context("trip")
        assert context.summary is not None
        print(f"{compactions} compactions; the newest: {context.summary.text}")
        print(f"sent: {[message.role for message in context.messages[:4]]} ...")
        print(f"stored: {store.messages.count('trip')} messages, every word of them")
        fitted = store.messages.context("plain", budget_tokens=2_000)
        print(f"cut to 2000 tokens: {fitted.dropped} messages left out, {fitted.tokens} tokens")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(place))
