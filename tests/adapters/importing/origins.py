"""Databases of LangGraph's own savers, to be imported from."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from ledgerstone.engines.postgres.drivers.urls import parse_target
from tests.adapters.langgraph.graphs import programmable, thread

WORDS = ("say", "call", "facts", "inner", "fan", "edit", "trim", "both", "ask")
EDITS = ("say", "mutate", "remove", "clear", "mutate", "empty", "say")


@dataclass(frozen=True)
class Origin:
    """Where a stock saver keeps its checkpoints, and how to open that saver."""

    source: str
    opened: Callable[[], AbstractContextManager[Any]]


def sqlite_origin(folder: Path) -> Origin:
    path = str(folder / "checkpoints.sqlite")
    return Origin(path, lambda: SqliteSaver.from_conn_string(path))


@contextmanager
def postgres_origin(url: str) -> Iterator[Origin]:
    """Tables in a schema of their own, on the server of that url."""
    dsn, schema = parse_target(url).dsn, f"origin_{uuid.uuid4().hex[:12]}"
    source = f"{dsn}{'&' if '?' in dsn else '?'}options=-csearch_path%3D{schema}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f'create schema "{schema}"')
    try:
        with PostgresSaver.from_conn_string(source) as saver:
            saver.setup()
        yield Origin(source, lambda: PostgresSaver.from_conn_string(source))
    finally:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f'drop schema "{schema}" cascade')


def say(graph: Any, name: str, *words: str) -> None:
    """One run of the graph for each word."""
    for n, word in enumerate(words):
        graph.invoke({"messages": [HumanMessage(word, id=f"{name}-{word}-{n}")]}, thread(name))


def filled(saver: BaseCheckpointSaver) -> Any:
    """A graph that has done a bit of everything in two threads, and waits for somebody."""
    graph = programmable(saver)
    say(graph, "one", *WORDS)
    say(graph, "two", "say", "both")
    return graph


def history(graph: Any, name: str) -> list[tuple[Any, ...]]:
    """All states of a thread, with those of graphs inside."""
    config = thread(name)
    now = graph.get_state(config, subgraphs=True)
    return [plain(now), *map(plain, graph.get_state_history(config))]


def plain(state: Any) -> tuple[Any, ...]:
    """What a state says, without how a task's own state is looked up."""
    tasks = [
        (one.id, one.name, one.path, one.error, one.interrupts, _inner(one.state), one.result)
        for one in state.tasks
    ]
    return (
        state.values,
        state.next,
        state.config,
        state.metadata,
        state.created_at,
        state.parent_config,
        tasks,
        state.interrupts,
    )


def _inner(state: Any) -> Any:
    return plain(state) if hasattr(state, "values") and hasattr(state, "tasks") else state
