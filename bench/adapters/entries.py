"""The contenders of the adapters: the frameworks' own persistence, ours, and Python objects.

Nothing here imports a framework; the modules that are named do, in the process of that contender.
A key that begins with pg- stands for a database, any other for a file.
"""

from __future__ import annotations

from typing import Final

from bench.contender import Entry, Kind

OURS: Final = Entry(key="ours", title="ours", kind="ours", opener="", needs="ledgerstone")
AGAIN: Final = "the same floor again (A/A)"
AGENTS: Final = "agents"
CHAT_BYTES: Final = 1000
"""Of each side of the conversation whose bytes are weighed."""
OURS_AGAIN: Final = "ours, the same again (A/A)"

SAVER_NOTE: Final = "durability as a graph has it by default; each checkpoint holds all messages"
WITH_POOL: Final = f"a pool of 10; {SAVER_NOTE}, unless their channel did not change"


def _entry(
    key: str, title: str, kind: Kind, opener: str, needs: str, *, note: str = "", slow: bool = False
) -> Entry:
    opener = f"bench.adapters.{opener}"
    return Entry(
        key=key,
        title=title,
        kind=kind,
        opener=opener,
        needs=needs,
        # A tool call is an item of its own there.
        per_turn=5 if needs == AGENTS else 4,
        note=note,
        slow=slow,
    )


# --- LangGraph: a compiled graph on a saver

GRAPH: Final = "langgraph.graph"
OBJECTS: Final = _entry(
    "graph-objects", "graph on objects, blocking", "floor", "savers:open_objects", GRAPH
)
OBJECTS_AGAIN: Final = _entry("graph-objects-again", AGAIN, "floor", "savers:open_objects", GRAPH)
OBJECTS_ASYNC: Final = _entry(
    "graph-objects-async", "graph on objects, async", "floor", "savers:open_objects_async", GRAPH
)
GRAPH_FLOORS: Final = (OBJECTS, OBJECTS_AGAIN, OBJECTS_ASYNC)

SAVER: Final = _entry(
    "graph-stock",
    "graph on SqliteSaver",
    "peer",
    "savers:open_stock",
    "langgraph.checkpoint.sqlite",
    note=SAVER_NOTE,
)
SAVER_ASYNC: Final = _entry(
    "graph-stock-async",
    "graph on AsyncSqliteSaver",
    "peer",
    "savers:open_stock_async",
    "langgraph.checkpoint.sqlite",
    note=SAVER_NOTE,
)
PG_SAVER: Final = _entry(
    "pg-graph-stock",
    "graph on PostgresSaver",
    "peer",
    "savers:open_pg_stock",
    "langgraph.checkpoint.postgres",
    note=WITH_POOL,
)
PG_SAVER_ASYNC: Final = _entry(
    "pg-graph-stock-async",
    "graph on AsyncPostgresSaver",
    "peer",
    "savers:open_pg_stock_async",
    "langgraph.checkpoint.postgres",
    note=WITH_POOL,
)


def _ledger_savers(prefix: str) -> dict[tuple[bool, bool], Entry]:
    """Ours by (async, cold)."""
    found = {}
    for is_async in (False, True):
        for cold in (False, True):
            colour, warmth = "async" if is_async else "blocking", "cold" if cold else "warm"
            found[is_async, cold] = _entry(
                f"{prefix}graph-ours-{colour}-{warmth}",
                f"ours, {colour}, {warmth}",
                "ours",
                f"savers:open_{prefix.replace('-', '_')}{colour}_{warmth}",
                GRAPH,
            )
    return found


LEDGER_SAVERS: Final = _ledger_savers("")
PG_LEDGER_SAVERS: Final = _ledger_savers("pg-")

# --- the same without tools, for what it leaves on the disk

CHATS: Final = (
    _entry(
        "chat-stock",
        SAVER.title,
        "peer",
        "savers:open_chat_stock",
        SAVER.needs,
        note=SAVER_NOTE,
    ),
    _entry("chat-ours", "ours", "ours", "savers:open_chat", GRAPH),
)
PG_CHATS: Final = (
    _entry(
        "pg-chat-stock",
        PG_SAVER.title,
        "peer",
        "savers:open_pg_chat_stock",
        PG_SAVER.needs,
        note=WITH_POOL,
    ),
    _entry("pg-chat-ours", "ours", "ours", "savers:open_pg_chat", GRAPH),
)

# --- OpenAI Agents: a Runner on a session

ITEMS: Final = _entry("runner-objects", "Runner on a list", "floor", "runners:open_list", AGENTS)
ITEMS_AGAIN: Final = _entry("runner-objects-again", AGAIN, "floor", "runners:open_list", AGENTS)
RUNNER: Final = _entry(
    "runner-stock",
    "Runner on SQLiteSession",
    "peer",
    "runners:open_stock",
    AGENTS,
    note="items only: no usage",
)
PG_RUNNER: Final = _entry(
    "pg-runner-stock",
    "Runner on SQLAlchemySession",
    "peer",
    "runners:open_pg_stock",
    AGENTS,
    note="one engine for all sessions; items only: no usage",
)
LEDGER_RUNNER: Final = _entry("runner-ours", "ours, async", "ours", "runners:open_ours", AGENTS)
PG_LEDGER_RUNNER: Final = _entry(
    "pg-runner-ours", "ours, async", "ours", "runners:open_pg_ours", AGENTS
)

# --- Google ADK: a session service

ADK: Final = "google.adk"
EVENTS: Final = _entry(
    "adk-stock",
    "SqliteSessionService of ADK",
    "peer",
    "services:open_stock",
    ADK,
    slow=True,
    note="each event is a connection and a commit of its own",
)
PG_EVENTS: Final = _entry(
    "pg-adk-stock",
    "DatabaseSessionService of ADK",
    "peer",
    "services:open_pg_stock",
    ADK,
    slow=True,
    note="with the engine and pool it makes by itself",
)
LEDGER_EVENTS: Final = _entry("adk-ours", "ours, async", "ours", "services:open_ours", ADK)
LEDGER_EVENTS_AGAIN: Final = _entry("adk-ours-again", OURS_AGAIN, "ours", "services:open_ours", ADK)
PG_LEDGER_EVENTS: Final = _entry("pg-adk-ours", "ours, async", "ours", "services:open_pg_ours", ADK)

# --- Pydantic AI: conversations of the harness

HARNESS: Final = "pydantic_ai_harness"
CONVERSATIONS: Final = _entry(
    "talk-stock",
    "SqliteConversationStore of the harness",
    "peer",
    "conversations:open_stock",
    HARNESS,
    note="a connection per call; the whole history is written with every save",
)
LEDGER_CONVERSATIONS: Final = _entry(
    "talk-ours", "ours, async", "ours", "conversations:open_ours", HARNESS
)
LEDGER_CONVERSATIONS_AGAIN: Final = _entry(
    "talk-ours-again", OURS_AGAIN, "ours", "conversations:open_ours", HARNESS
)
PG_LEDGER_CONVERSATIONS: Final = _entry(
    "pg-talk-ours", "ours, async", "ours", "conversations:open_pg_ours", HARNESS
)
