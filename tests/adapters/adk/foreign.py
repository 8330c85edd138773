"""Databases as ADK's own services write them, made by hand: as old or odd as a test needs."""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from google.adk.events.event import Event

STATES = """
create table app_states (app_name varchar(128) primary key, state {json}, update_time {time});
create table user_states (app_name varchar(128), user_id varchar(128), state {json},
  update_time {time}, primary key (app_name, user_id));
create table sessions (app_name varchar(128), user_id varchar(128), id varchar(128), state {json},
  create_time {time}, update_time {time}, primary key (app_name, user_id, id));
"""
NEW = """
create table adk_internal_metadata (key varchar(128) primary key, value varchar(256));
insert into adk_internal_metadata values ('schema_version', '{version}');
create table events (id varchar(128), app_name varchar(128), user_id varchar(128),
  session_id varchar(128), invocation_id varchar(256), timestamp {time}, event_data {json},
  primary key (id, app_name, user_id, session_id));
"""
OLD = """
create table events (id varchar(128), app_name varchar(128), user_id varchar(128),
  session_id varchar(128), invocation_id varchar(256), author varchar(256), actions {bytes},
  long_running_tool_ids_json text, branch varchar(256), timestamp {time}, content {json},
  usage_metadata {json}, partial boolean, turn_complete boolean, error_code varchar(256),
  error_message text, interrupted boolean);
"""
KINDS = {
    "sqlite": {"json": "text", "time": "datetime", "bytes": "blob"},
    "postgres": {"json": "jsonb", "time": "timestamp", "bytes": "bytea"},
}


class Bomb:
    """Unpickling it would leave a trace."""

    went_off = False

    def __reduce__(self) -> Any:
        return (setattr, (Bomb, "went_off", True))


def tables(dialect: str, version: str = "1") -> list[str]:
    text = STATES + (OLD if version == "0" else NEW)
    full = text.format(version=version, **KINDS[dialect])
    return [one for one in full.split(";") if one.strip()]


def moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, tz=UTC).replace(tzinfo=None)


def rows(
    sessions: dict[tuple[str, str, str], tuple[dict[str, Any], list[Event]]], version: str = "1"
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Tables and rows of some sessions."""
    for (app, user, name), (state, events) in sessions.items():
        key = {"app_name": app, "user_id": user}
        at = moment(events[-1].timestamp if events else 1.0)
        times = {"create_time": moment(1.0), "update_time": at}
        yield "sessions", {**key, "id": name, "state": json.dumps(state), **times}
        for one in events:
            common: dict[str, Any] = {**key, "session_id": name, "id": one.id}
            common |= {"invocation_id": one.invocation_id, "timestamp": moment(one.timestamp)}
            if version != "0":
                data = one.model_dump_json(exclude_none=True)
                yield "events", {**common, "event_data": data}
            else:
                yield "events", {**common, **_old_columns(one)}


def _old_columns(event: Event) -> dict[str, Any]:
    found = {
        "author": event.author,
        "actions": pickle.dumps(Bomb()),
        "content": event.content and event.content.model_dump_json(exclude_none=True),
        "long_running_tool_ids_json": None,
        "error_code": event.error_code,
    }
    if event.long_running_tool_ids:
        found["long_running_tool_ids_json"] = json.dumps(sorted(event.long_running_tool_ids))
    return found


def shared(app: dict[str, Any], user: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "app_states", {"app_name": "trips", "state": json.dumps(app)}
    yield "user_states", {"app_name": "trips", "user_id": "ada", "state": json.dumps(user)}


def write_file(path: Path, found: Any, version: str = "1") -> None:
    """A file as SQLAlchemy writes it: times are text."""
    with closing(sqlite3.connect(path)) as db:
        has = db.execute("select count(*) from sqlite_master").fetchone()[0]
        for statement in () if has else tables("sqlite", version):
            db.execute(statement)
        for table, row in found:
            values = [str(one) if isinstance(one, datetime) else one for one in row.values()]
            marks = ", ".join("?" * len(row))
            db.execute(f"insert into {table} ({', '.join(row)}) values ({marks})", values)
        db.commit()


def write_server(url: str, found: Any, version: str = "1") -> None:
    import psycopg

    with psycopg.connect(url) as db:
        if db.execute("select to_regclass('events')").fetchone() == (None,):
            statement: Any
            for statement in tables("postgres", version):
                db.execute(statement)
        for table, row in found:
            marks = ", ".join(["%s"] * len(row))
            text: Any = f"insert into {table} ({', '.join(row)}) values ({marks})"
            db.execute(text, list(row.values()))
