"""The session document: opaque JSON that round-trips, a few known fields, no secrets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ledgerstone import Store, user
from ledgerstone.commands.sessions import GetDocument, GetDocuments
from ledgerstone.errors import InvalidValue, SessionNotFound
from ledgerstone.records.document import tool_names
from ledgerstone.records.sessions import STATUSES, Session
from ledgerstone.testing.bed import Bed

__all__ = ["TestDocuments", "TestStates", "TestDocumentRules", "TestSecrets"]

POLICIES: dict[str, Any] = {
    "permission_policy": {
        "enabled": True,
        "deny": [{"tool": "bash", "args": "rm *"}],
        "allow": ["read"],
        "ask": [],
        "default": "ask",
    },
    "confirmation_policy": {
        "enabled": False,
        "default_timeout_ms": 30_000,
        "timeout_action": "reject",
        "yolo_lanes": ["query"],
    },
    "queue_config": {
        "controlConcurrency": 2,
        "laneHandlers": {"execute": {"mode": "hybrid", "timeoutMs": 60_000}},
        "enableDlq": True,
    },
    "security_config": {
        "enabled": True,
        "classificationRules": [{"name": "mail", "pattern": "\\S+@\\S+"}],
        "networkWhitelist": ["example.org"],
    },
}
DOCUMENT: dict[str, Any] = {
    "config": {
        "name": "trip",
        "workspace": "/w",
        "system_prompt": None,
        "max_context_length": 128_000,
        "auto_compact": True,
        "auto_compact_threshold": 0.65,
        "storage_type": "memory",
        "planning_mode": "enabled",
        "goal_tracking": True,
        "parent_id": "mother",
        **POLICIES,
    },
    "state": "active",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    "context_usage": {"used_tokens": 5, "max_tokens": 10, "percent": 0.5, "turns": 1},
    "total_usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    "total_cost": 0.125,
    "cost_records": [{"model": "m-1", "provider": "p", "cost_usd": 0.125, "session_id": "s"}],
    "model_name": "m-1",
    "tool_names": ["read", "bash"],
    "thinking_enabled": True,
    "thinking_budget": 1024,
    "created_at": 1_700_000_000,
    "updated_at": 1_700_000_100,
    "llm_config": {"provider": "p", "model": "m-1", "base_url": None},
    "tasks": [{"id": "t1", "content": "book", "status": "in_progress", "priority": "high"}],
    "parent_id": "mother",
    "unknown_to_us": {"kept": [None, 1, {"deep": "yes"}]},
}
CANARY = "canary-4b1d-never-store-me"


def stored(backend: Bed, document: dict[str, Any]) -> dict[str, Any]:
    """The document as a store that was opened again reads it."""
    backend.store.sessions.put(Session(id="s"), document=document)
    return read(backend.reopen())


def read(store: Store) -> dict[str, Any]:
    """The document of the session "s", which must have one."""
    found = store.sessions.document("s")
    assert found is not None
    return found


class TestDocuments:
    """Written whole, read whole."""

    @pytest.mark.promise(25, 32, 40)
    def test_every_field_of_a_document_round_trips(self, backend: Bed) -> None:
        assert stored(backend, DOCUMENT) == DOCUMENT

    @pytest.mark.promise(32, 192)
    @pytest.mark.parametrize("policy", POLICIES)
    def test_policies_round_trip_as_they_are(self, backend: Bed, policy: str) -> None:
        found = stored(backend, {"config": {policy: POLICIES[policy]}})
        assert found["config"][policy] == POLICIES[policy]

    @pytest.mark.promise(25)
    def test_a_second_save_is_what_is_read(self, backend: Bed) -> None:
        stored(backend, DOCUMENT)
        more = {**DOCUMENT, "messages": [*DOCUMENT["messages"], {"role": "assistant"}]}
        del more["unknown_to_us"]
        assert stored(backend, more) == more

    @pytest.mark.promise(1, 26)
    def test_a_session_without_a_document_has_none(self, backend: Bed) -> None:
        assert backend.store.sessions.document("nobody") is None
        backend.store.sessions.create(id="s")
        assert backend.store.sessions.document("s") is None

    @pytest.mark.promise(25)
    def test_a_put_that_says_nothing_of_the_document_keeps_it(self, backend: Bed) -> None:
        stored(backend, DOCUMENT)
        backend.store.sessions.put(Session(id="s", title="new"))
        backend.store.sessions.update("s", title="newer")
        assert backend.store.sessions.document("s") == DOCUMENT

    @pytest.mark.promise(25)
    def test_update_replaces_the_document_and_none_removes_it(self, backend: Bed) -> None:
        stored(backend, DOCUMENT)
        backend.store.sessions.update("s", document={"total_cost": 9.0})
        assert read(backend.store)["total_cost"] == 9.0
        assert read(backend.store)["messages"] == []
        backend.store.sessions.update("s", document=None)
        assert backend.store.sessions.document("s") is None

    @pytest.mark.promise(25, 58)
    def test_a_document_for_an_unknown_session_is_an_error(self, backend: Bed) -> None:
        with pytest.raises(SessionNotFound):
            backend.store.sessions.update("nobody", document={})

    @pytest.mark.promise(25)
    @pytest.mark.parametrize("bad", [[1], "text", 7, {"x": float("nan")}, {"x": b"y"}])
    def test_what_is_no_document_is_refused(self, backend: Bed, bad: Any) -> None:
        backend.store.sessions.create(id="s", document={"total_cost": 1.0})
        with pytest.raises(InvalidValue):
            backend.store.sessions.update("s", document=bad)
        assert read(backend.store)["total_cost"] == 1.0

    @pytest.mark.promise(31)
    def test_five_saves_at_once_all_succeed_and_one_of_them_stays(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s")

        def save(n: int) -> Session:
            document = {"total_cost": float(n), "unknown_to_us": str(n) * 20_000}
            return backend.store.sessions.put(Session(id="s", title=str(n)), document=document)

        with ThreadPoolExecutor(5) as pool:
            answers = list(pool.map(save, range(5)))
        assert [answer.title for answer in answers] == ["0", "1", "2", "3", "4"]
        store = backend.reopen()
        document, session = read(store), store.sessions.get("s")
        assert session is not None
        last = str(int(document["total_cost"]))
        assert document["unknown_to_us"] == last * 20_000
        assert session.title == last

    @pytest.mark.promise(39)
    def test_the_parent_in_a_document_is_readable(self, backend: Bed) -> None:
        found = stored(backend, DOCUMENT)
        assert (found["parent_id"], found["config"]["parent_id"]) == ("mother", "mother")

    @pytest.mark.promise(24, 30)
    def test_a_document_goes_with_its_session(self, backend: Bed) -> None:
        stored(backend, DOCUMENT)
        backend.store.sessions.purge("s")
        assert backend.store.sessions.document("s") is None
        backend.store.sessions.create(id="s")
        assert backend.store.sessions.document("s") is None


class TestStates:
    def test_the_states_of_several_sessions_come_in_one_read(self, backend: Bed) -> None:
        store = backend.store
        for n in range(3):
            with store.turns.begin(f"s{n}", create=True) as turn:
                turn.state(n=n)
        store.sessions.create(id="bare", document={"n": 9})
        store.sessions.delete("s1")
        store.sessions.purge("s2")
        backend.reopen()
        store = backend.store
        asked = ["s2", "s1", "none", "bare", "s0", "s1"]
        states = store.sessions.states(asked)
        assert list(states.items()) == [("s1", {"n": 1}), ("s0", {"n": 0})]
        assert states == {id: store.sessions.state(id) for id in ("s0", "s1")}
        assert store.sessions.states([]) == {}
        assert store.sessions.states(store.sessions.iter()) == {"s0": {"n": 0}}

    def test_a_document_of_several_sessions_has_one_name(self, backend: Bed) -> None:
        store = backend.store
        with store.turns.begin("s", create=True) as turn:
            turn.state(n=1)
            turn.head(config={"model": "m"})
        asked = [
            GetDocuments(tenant=tenant, sessions=("s",), name=name)
            for tenant in ("default", "other")
            for name in ("state", "config", "document")
        ]
        found = backend.ask_all(*asked)
        assert found == [{"s": b'{"n":1}'}, {"s": b'{"model":"m"}'}, {}, {}, {}, {}]

    def test_what_names_no_session_is_refused(self, backend: Bed) -> None:
        for bad in ([None], [""], [1]):
            with pytest.raises(InvalidValue, match="session"):
                backend.store.sessions.states(bad)  # type: ignore[arg-type]


class TestDocumentRules:
    """Defaults, aliases, states."""

    @pytest.mark.promise(34)
    def test_what_a_document_leaves_out_has_a_default(self, backend: Bed) -> None:
        found = stored(backend, {})
        assert (found["total_cost"], found["cost_records"], found["tasks"]) == (0, [], [])
        config = found["config"]
        assert config["auto_compact_threshold"] == 0.80
        assert config["goal_tracking"] is False
        assert config["storage_type"] == "file"
        assert "planning_mode" in config

    @pytest.mark.promise(34)
    def test_defaults_are_read_and_not_written(self, backend: Bed) -> None:
        stored(backend, {})
        raw = backend.ask(GetDocument(tenant="default", session="s", name="document"))
        assert raw == b"{}"

    @pytest.mark.promise(34)
    def test_a_default_that_was_changed_by_a_reader_stays_a_default(self, backend: Bed) -> None:
        first = stored(backend, {})
        first["tasks"].append("mine")
        first["config"]["goal_tracking"] = True
        again = read(backend.store)
        assert (again["tasks"], again["config"]["goal_tracking"]) == ([], False)

    @pytest.mark.promise(35)
    def test_todos_are_read_as_tasks(self, backend: Bed) -> None:
        tasks = [{"id": "t1", "content": "book"}]
        found = stored(backend, {"todos": tasks})
        assert found["tasks"] == tasks
        assert "todos" not in found

    @pytest.mark.promise(35)
    def test_tasks_win_over_todos(self, backend: Bed) -> None:
        assert stored(backend, {"todos": [1], "tasks": [2]})["tasks"] == [2]

    @pytest.mark.promise(36)
    def test_the_default_of_the_context_usage(self, backend: Bed) -> None:
        usage = {"used_tokens": 0, "max_tokens": 200_000, "percent": 0, "turns": 0}
        assert stored(backend, {})["context_usage"] == usage
        some = stored(backend, {"context_usage": {"used_tokens": 7}})
        assert some["context_usage"] == {**usage, "used_tokens": 7}

    @pytest.mark.promise(152)
    def test_the_settings_of_compaction_stay_with_the_session(self, backend: Bed) -> None:
        wanted = {"auto_compact": True, "auto_compact_threshold": 0.65}
        found = stored(backend, {"config": wanted})["config"]
        assert {name: found[name] for name in wanted} == wanted

    @pytest.mark.promise(33)
    def test_the_states_of_a_document(self, backend: Bed) -> None:
        assert stored(backend, {})["state"] == "unknown"
        for state in STATUSES:
            assert stored(backend, {"state": state})["state"] == state
        with pytest.raises(InvalidValue):
            backend.store.sessions.update("s", document={"state": "sleeping"})

    @pytest.mark.promise(37)
    def test_what_lives_only_at_run_time_is_not_stored(self, backend: Bed) -> None:
        engine = object()
        document = {"hook_engine": engine, "config": {"hook_engine": engine, "name": "kept"}}
        found = stored(backend, document)
        assert "hook_engine" not in found
        assert "hook_engine" not in found["config"]
        assert found["config"]["name"] == "kept"
        assert document["hook_engine"] is engine

    @pytest.mark.promise(38)
    def test_tool_names_come_from_the_definitions_in_their_order(self, backend: Bed) -> None:
        class Definition:
            name = "bash"

        names = tool_names([{"name": "read", "parameters": {}}, Definition(), {"name": "a"}])
        assert names == ["read", "bash", "a"]
        assert stored(backend, {"tool_names": names})["tool_names"] == names
        with pytest.raises(InvalidValue):
            tool_names([{"title": "nameless"}])


class TestSecrets:
    """The key of a provider never reaches the disk; what a user says is never altered."""

    @pytest.mark.promise(189)
    def test_an_api_key_is_absent_after_it_was_saved(self, backend: Bed) -> None:
        keep_secret(backend)
        found = read(backend.reopen())
        assert found["llm_config"] == {"provider": "p"}
        assert "api_key" not in found["config"]
        assert found["config"]["llm_config"] == {"provider": "q"}
        assert CANARY not in repr(found)

    @pytest.mark.promise(189)
    def test_an_api_key_in_the_config_of_a_head_is_dropped(self, backend: Bed) -> None:
        with backend.store.turns.begin("s", create=True) as turn:
            turn.user("hello")
            turn.head(config={"provider_id": "p", "model": {"id": "m"}, "api_key": CANARY})
        head = backend.reopen().sessions.head("s")
        assert head is not None
        assert head.config == {"provider_id": "p", "model": {"id": "m"}}

    @pytest.mark.promise(189)
    def test_the_document_of_the_caller_is_left_alone(self, backend: Bed) -> None:
        document = {"llm_config": {"api_key": CANARY}}
        stored(backend, document)
        assert document == {"llm_config": {"api_key": CANARY}}

    @pytest.mark.promise(189)
    def test_the_bytes_on_the_disk_do_not_contain_the_key(self, backend: Bed) -> None:
        keep_secret(backend)
        # The control: what may be stored is found by the same search, so the search works.
        backend.store.messages.append("s", user("findable-7c2e"))
        raw = backend.ask(GetDocument(tenant="default", session="s", name="document"))
        assert raw is not None
        assert CANARY.encode() not in raw
        if backend.raw is not None:
            assert b"findable-7c2e" in backend.raw()
            assert CANARY.encode() not in backend.raw()
            backend.close()
            assert b"findable-7c2e" in backend.raw()
            assert CANARY.encode() not in backend.raw()

    @pytest.mark.promise(189)
    def test_a_field_of_that_name_in_the_words_of_a_user_is_kept(self, backend: Bed) -> None:
        document = {"messages": [{"role": "user", "api_key": "mine"}], "tasks": [{"api_key": 1}]}
        assert stored(backend, document)["messages"] == document["messages"]
        backend.store.sessions.update("s", metadata={"api_key": "mine"})
        backend.store.messages.append("s", user("x", metadata={"api_key": "mine"}))
        session = backend.store.sessions.get("s")
        assert session is not None
        assert session.metadata == {"api_key": "mine"}
        assert backend.store.messages.last("s", 1)[0].metadata == {"api_key": "mine"}


def keep_secret(backend: Bed) -> None:
    """Save a document with the canary in every place that is meant for a key."""
    config = {"api_key": CANARY, "llm_config": {"provider": "q", "api_key": CANARY}}
    document = {"config": config, "llm_config": {"provider": "p", "api_key": CANARY}}
    backend.store.sessions.create(id="s", document=document)
    backend.store.sessions.put(Session(id="s"), document=document)
    backend.store.sessions.update("s", document=document)
