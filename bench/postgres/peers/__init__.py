"""What a user would pick instead on PostgreSQL, each as its documentation shows, in a database.

Nothing here imports a peer; the files beside this one do, in the process of that contender.
"""

from __future__ import annotations

from typing import Final

from bench.contender import Entry

PEERS: Final = (
    Entry(
        key="pg-openai",
        title="openai-agents SQLAlchemySession",
        kind="peer",
        opener="bench.postgres.peers.openai:open_sqlalchemy",
        needs="agents",
        per_turn=5,
        note="one engine for all sessions; items only, in one commit: no run, no usage; a tool "
        "call is an item of its own",
    ),
    Entry(
        key="pg-langgraph-exit",
        title="LangGraph AsyncPostgresSaver, exit",
        kind="peer",
        opener="bench.postgres.peers.langgraph:open_exit",
        needs="langgraph.checkpoint.postgres",
        rewrites=True,
        note='a pool of 10; the one checkpoint that a graph writes per turn with durability="exit",'
        " without the graph itself; it holds all messages again",
    ),
    Entry(
        key="pg-langgraph",
        title="LangGraph AsyncPostgresSaver, default",
        kind="peer",
        opener="bench.postgres.peers.langgraph:open_default",
        needs="langgraph.checkpoint.postgres",
        slow=True,
        rewrites=True,
        note="a pool of 10; the 5 checkpoints and 4 writes that a graph of agent, tool, agent makes"
        " per turn, without the graph itself; each checkpoint holds all messages again",
    ),
    Entry(
        key="pg-agno",
        title="agno AsyncPostgresDb",
        kind="peer",
        opener="bench.postgres.peers.agno:open_agno",
        needs="agno.db.postgres",
        slow=True,
        note="run with messages and usage, then the session row: two commits, as its agent does",
    ),
    Entry(
        key="pg-adk",
        title="ADK DatabaseSessionService",
        kind="peer",
        opener="bench.postgres.peers.adk:open_adk",
        needs="google.adk",
        slow=True,
        note="four events with usage, each a commit of its own; no run",
    ),
)
QUEUES: Final = (
    Entry(
        key="pg-procrastinate",
        title="procrastinate",
        kind="peer",
        opener="bench.postgres.peers.procrastinate:open_procrastinate",
        needs="procrastinate",
        note="jobs deferred in one batch, then a worker with a concurrency of 50 until none is "
        "left; finished jobs are deleted",
    ),
    Entry(
        key="pg-dbos",
        title="dbos",
        kind="peer",
        opener="bench.postgres.peers.dbos:open_dbos",
        needs="dbos",
        note="workflows enqueued one by one in a queue that is polled every 50 ms, then their "
        "results awaited; it keeps their history",
    ),
)
