"""What a user would pick instead, each used as its documentation shows, on a file of its own.

Nothing here imports a peer; the files beside this one do, in the process of that contender. None
of them sets `synchronous`, so each keeps the default of Python's own SQLite.
"""

from __future__ import annotations

from typing import Final

from bench.contender import Entry

PEERS: Final = (
    Entry(
        key="openai",
        title="openai-agents SQLiteSession",
        kind="peer",
        opener="bench.peers.openai_sqlite:open_plain",
        needs="agents",
        per_turn=5,
        note="items only, in one commit: no run, no usage; a tool call is an item of its own; "
        "a new session opens its connections with its first commits",
    ),
    Entry(
        key="openai-advanced",
        title="openai-agents AdvancedSQLiteSession",
        kind="peer",
        opener="bench.peers.openai_sqlite:open_advanced",
        needs="agents",
        per_turn=5,
        note="items and structure, in one commit; usage would be a second one and is left out",
    ),
    Entry(
        key="langgraph-exit",
        title="LangGraph AsyncSqliteSaver, exit",
        kind="peer",
        opener="bench.peers.langgraph_sqlite:open_exit",
        needs="langgraph.checkpoint.sqlite",
        rewrites=True,
        note='the one checkpoint that a graph writes per turn with durability="exit", without the '
        "graph itself; it holds all messages again",
    ),
    Entry(
        key="langgraph",
        title="LangGraph AsyncSqliteSaver, default",
        kind="peer",
        opener="bench.peers.langgraph_sqlite:open_default",
        needs="langgraph.checkpoint.sqlite",
        slow=True,
        rewrites=True,
        note="the 5 checkpoints and 4 writes that a graph of agent, tool, agent makes per turn, "
        "without the graph itself; each checkpoint holds all messages again",
    ),
    Entry(
        key="agno",
        title="agno SqliteDb",
        kind="peer",
        opener="bench.peers.agno_sqlite:open_agno",
        needs="agno.db.sqlite",
        slow=True,
        note="run with messages and usage, then the session row: two commits, as its agent does; "
        "keeps decoded runs in memory for the next load; blocks the event loop meanwhile, so that "
        "W3 shows no waiting",
    ),
    Entry(
        key="adk",
        title="ADK SqliteSessionService",
        kind="peer",
        opener="bench.peers.adk_sqlite:open_adk",
        needs="google.adk",
        slow=True,
        note="four events with usage, each a connection and a commit of its own; no run",
    ),
)
