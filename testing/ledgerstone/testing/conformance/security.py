"""Security: ids are untrusted, tenants do not see each other, secrets are not kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import Store, user
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.errors import (
    Fenced,
    InvalidValue,
    Misuse,
    NotFound,
    SessionNotFound,
)
from ledgerstone.records.drafts import DraftRecord
from ledgerstone.records.leases import Lease
from ledgerstone.records.runs import Run
from ledgerstone.testing.bed import Bed

NASTY_IDS = (
    "../../../etc/passwd",
    "foo\\bar\\baz",
    "foo/bar\\baz..qux",
    "..",
    ".",
    "/",
    "C:\\con",
    "nul",
    "a' OR '1'='1",
    'a"; drop table nodes; --',
    "%_*?[]",
    "$where",
    " leading and trailing ",
    "\u202eright to left",
    "\U0001f600\u0301",
    "x" * 255,
    "漢" * 255,
)
LOOKALIKES = (
    ("a/b", "a_b"),
    ("a/b", "a\\b"),
    ("A", "a"),
    ("a", "a "),
    ("a%", "ab"),
    ("a_", "ab"),
    ("\u00e9", "e\u0301"),
    ("1", "01"),
    ("1", "1.0"),
    ("straße", "strasse"),
)


class TestUntrustedIds:
    @pytest.mark.promise(190)
    @pytest.mark.parametrize("id", NASTY_IDS)
    def test_any_text_is_an_id_and_comes_back_as_it_was(self, backend: Bed, id: str) -> None:
        store = backend.store
        store.messages.append(id, user("hi", id=id), create=True)
        store.branches.create(id, id, at=id)
        store.nodes.annotate(id, id, {id: id})
        store.runs.create(id, id=id)
        backend.reopen()
        store = backend.store
        assert [session.id for session in store.sessions.list()] == [id]
        assert [message.id for message in store.messages.history(id, branch=id)] == [id]
        assert store.nodes.notes(id, [id])[id][id].body == id
        assert store.runs.get(id) is not None
        assert store.admin.verify().ok

    @pytest.mark.promise(190)
    def test_no_id_becomes_a_path(self, backend: Bed, tmp_path: Path) -> None:
        before = _tree(tmp_path)
        for id in ("../escaped", "..\\escaped", str(tmp_path / "escaped"), "sub/dir/file"):
            backend.store.messages.append(id, user("hi"), create=True)
        names = {name for name in _tree(tmp_path) - before if "store.db" not in name}
        assert names == set()
        assert not any("escaped" in name for name in _tree(tmp_path.parent))

    @pytest.mark.promise(191)
    @pytest.mark.parametrize(("one", "other"), LOOKALIKES)
    def test_different_ids_never_share_anything(self, backend: Bed, one: str, other: str) -> None:
        store = backend.store
        for id in (one, other):
            store.messages.append(id, user(f"of {id}", id="m"), create=True)
            store.branches.create(one, id, at="m")
            store.nodes.annotate(one, "m", {id: id})
            store.runs.create(id, id=id)
        for id in (one, other):
            assert backend.texts(id) == [f"of {id}"]
            run = store.runs.get(id)
            assert run is not None
            assert run.session == id
        assert {b.name for b in store.branches.list(one)} == {"main", one, other}
        assert {key: note.body for key, note in store.nodes.notes(one, ["m"])["m"].items()} == {
            one: one,
            other: other,
        }
        store.sessions.purge(one)
        assert store.sessions.get(one) is None
        assert backend.texts(other) == [f"of {other}"]

    @pytest.mark.promise(191)
    @pytest.mark.parametrize(("prefix", "others"), [("a_", ("ab", "a-")), ("a%", ("abc", "A%"))])
    def test_a_prefix_of_note_keys_is_no_pattern(
        self, backend: Bed, prefix: str, others: tuple[str, ...]
    ) -> None:
        store = backend.store
        store.sessions.create(id="s")
        store.nodes.annotate("s", "n", dict.fromkeys((prefix + "x", *others), 1))
        assert list(store.nodes.notes("s", ["n"], prefix=prefix)["n"]) == [prefix + "x"]

    def test_filter_keys_come_from_a_closed_grammar(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s", metadata={"a": 1})
        for key in ("a' --", "$where", "a.b", "", "a\x00"):
            with pytest.raises(InvalidValue) as caught:
                backend.store.sessions.list(metadata_contains={key: 1})
            assert caught.value.field == "metadata_contains"


class TestWhatIsNotKept:
    @pytest.mark.promise(37, 189)
    def test_an_api_key_is_never_written(self, backend: Bed) -> None:
        secret = "sk-this-must-not-be-kept"
        document = {"llm_config": {"provider": "p", "api_key": secret}, "messages": []}
        backend.store.sessions.create(id="s", document=document)
        backend.reopen()
        loaded = backend.store.sessions.document("s")
        assert loaded is not None
        assert loaded["llm_config"]["provider"] == "p"
        assert loaded["llm_config"].get("api_key") is None
        backend.close()
        if backend.raw is not None:
            kept = backend.raw()
            assert kept
            assert secret.encode() not in kept

    @pytest.mark.promise(189)
    def test_what_users_say_is_never_altered(self, backend: Bed) -> None:
        """A message may well talk about an api_key: payloads belong to the user."""
        said = {"api_key": "sk-in-a-message"}
        backend.store.messages.append("s", user("hi", metadata=said), create=True)
        assert backend.store.messages.last("s", 1)[0].metadata == said

    @pytest.mark.promise(88, 189)
    def test_vacuum_leaves_nothing_to_read_of_what_was_hidden(self, backend: Bed) -> None:
        secret = "please forget 8f1c0de5"
        store = backend.store
        store.messages.append("s", user(secret, id="m1"), user("keep"), create=True)
        store.messages.amend("m1", session="s", metadata={"also": secret})
        store.nodes.tombstone("s", ["m1"])
        store.admin.vacuum("s")
        assert store.messages.get("m1", session="s") is None
        assert store.messages.versions("m1", session="s") == []
        whole = backend.ask(ReadMessages(tenant="default", session="s", deleted=True))
        assert secret not in repr([message.body for message in whole])


class TestPolicies:
    @pytest.mark.promise(192)
    def test_policies_come_back_as_they_were(self, backend: Bed) -> None:
        policies: dict[str, Any] = {
            "permission_policy": {"deny": ["rm *"], "allow": [], "default": "ask"},
            "confirmation_policy": {"enabled": True, "defaultTimeoutMs": 30000, "yoloLanes": []},
            "queue_config": {"controlMaxConcurrency": 2, "dlq": None, "laneHandlers": {"q": {}}},
            "security_config": {"enabled": False, "networkWhitelist": ["\u00fc.example"]},
        }
        with backend.store.turns.begin("s", create=True) as turn:
            turn.head(config=policies)
        backend.reopen()
        head = backend.store.sessions.head("s")
        assert head is not None
        assert head.config == policies


Call = Callable[[Store, Lease], Any]


def _draft(store: Store, lease: Lease) -> Any:
    return store.drafts.discard(DraftRecord(session="s", id="d1", text=""))


# What another tenant gets for the ids of the first one: a value, or an error.
FOREIGN: dict[str, tuple[Call, Any]] = {
    "sessions.get": (lambda s, _: s.sessions.get("s"), None),
    "sessions.head": (lambda s, _: s.sessions.head("s"), None),
    "sessions.exists": (lambda s, _: s.sessions.exists("s"), False),
    "sessions.at": (lambda s, _: s.sessions.at("s", 1), None),
    "sessions.load": (lambda s, _: s.sessions.load("s"), None),
    "sessions.state": (lambda s, _: s.sessions.state("s"), {}),
    "sessions.states": (lambda s, _: s.sessions.states(["s"]), {}),
    "sessions.document": (lambda s, _: s.sessions.document("s"), None),
    "sessions.picker": (lambda s, _: s.sessions.picker("s"), None),
    "sessions.recovery": (lambda s, _: s.sessions.recovery("s"), None),
    "sessions.list": (lambda s, _: s.sessions.list(deleted=True).items, []),
    "sessions.iter": (lambda s, _: list(s.sessions.iter()), []),
    "sessions.count": (lambda s, _: s.sessions.count(), 0),
    "sessions.update": (lambda s, _: s.sessions.update("s", title="x"), SessionNotFound),
    "sessions.fork": (lambda s, _: s.sessions.fork("s"), SessionNotFound),
    "sessions.copy": (lambda s, _: s.sessions.copy("s", "c"), SessionNotFound),
    "sessions.delete": (lambda s, _: s.sessions.delete("s"), False),
    "sessions.restore": (lambda s, _: s.sessions.restore("s"), False),
    "sessions.purge": (lambda s, _: s.sessions.purge("s").existed, False),
    "messages.append": (lambda s, _: s.messages.append("s", user("x")), SessionNotFound),
    "messages.history": (lambda s, _: s.messages.history("s"), []),
    "messages.last": (lambda s, _: s.messages.last("s"), []),
    "messages.list": (lambda s, _: s.messages.list("s").items, []),
    "messages.iter": (lambda s, _: list(s.messages.iter("s")), []),
    "messages.range": (lambda s, _: s.messages.range("s", 1, 9), []),
    "messages.get": (lambda s, _: s.messages.get("m1"), None),
    "messages.count": (lambda s, _: s.messages.count("s"), 0),
    "messages.versions": (lambda s, _: s.messages.versions("m1", session="s"), []),
    "messages.replace": (lambda s, _: s.messages.replace("s", [user("x")]), SessionNotFound),
    "messages.pop": (lambda s, _: s.messages.pop("s"), SessionNotFound),
    "messages.clear": (lambda s, _: s.messages.clear("s"), SessionNotFound),
    "messages.amend": (
        lambda s, _: s.messages.amend("m1", session="s", is_summary=True),
        SessionNotFound,
    ),
    "messages.delete": (lambda s, _: s.messages.delete("m1", session="s"), False),
    "messages.context": (lambda s, _: s.messages.context("s").messages, []),
    "messages.should_compact": (lambda s, _: s.messages.should_compact("s", used_tokens=9), False),
    "messages.latest_compaction": (lambda s, _: s.messages.latest_compaction("s"), None),
    "messages.compact": (lambda s, _: s.messages.compact("s", "x", tail_start=None), NotFound),
    "nodes.append": (lambda s, _: s.nodes.append("s", {"kind": "k"}), SessionNotFound),
    "nodes.get": (lambda s, _: s.nodes.get("s", "m1"), None),
    "nodes.find": (lambda s, _: s.nodes.find("m1"), []),
    "nodes.iter": (lambda s, _: list(s.nodes.iter("s")), []),
    "nodes.iter all": (lambda s, _: list(s.nodes.iter()), []),
    "nodes.path": (lambda s, _: s.nodes.path("s"), []),
    "nodes.notes": (lambda s, _: s.nodes.notes("s", ["m1"]), {}),
    "nodes.annotate": (lambda s, _: s.nodes.annotate("s", "m1", {"k": 1}), SessionNotFound),
    "nodes.tombstone": (lambda s, _: s.nodes.tombstone("s", ["m1"]), SessionNotFound),
    "branches.list": (lambda s, _: s.branches.list("s"), []),
    "branches.create": (lambda s, _: s.branches.create("s", "b", at="m1"), SessionNotFound),
    "branches.move": (lambda s, _: s.branches.move("s", "main", to=None), NotFound),
    "branches.diff": (lambda s, _: s.branches.diff("s", "main", "side"), NotFound),
    "turns.get": (lambda s, _: s.turns.get("s", "t1"), None),
    "turns.list": (lambda s, _: s.turns.list("s"), []),
    "runs.get": (lambda s, _: s.runs.get("r1"), None),
    "runs.latest": (lambda s, _: s.runs.latest("s"), None),
    "runs.put": (lambda s, _: s.runs.put(Run(id="r1", session="s")), SessionNotFound),
    "leases.get": (lambda s, _: s.leases.get("s"), None),
    "leases.take": (lambda s, _: s.leases.take("s"), SessionNotFound),
    "leases.renew": (lambda s, lease: s.leases.renew(lease), SessionNotFound),
    "leases.release": (lambda s, lease: s.leases.release(lease), False),
    "leases.break_": (lambda s, _: s.leases.break_("s", by="x", reason="x"), SessionNotFound),
    "drafts.list": (lambda s, _: s.drafts.list("s"), []),
    "drafts.discard": (_draft, False),
    "work.list": (lambda s, _: s.work.list("s"), []),
    "work.enqueue": (lambda s, _: s.work.enqueue("s", 1), SessionNotFound),
    "work.claim": (lambda s, lease: s.work.claim(lease), SessionNotFound),
    "work.take": (lambda s, _: s.work.take(), None),
    "work.take_many": (lambda s, _: list(s.work.take_many(3)), []),
    "work.enqueue_many": (
        lambda s, _: [type(each) for each in s.work.enqueue_many([("s", 1)])],
        [SessionNotFound],
    ),
    "work.cancel": (lambda s, _: s.work.cancel("s", "w1"), None),
    "work.dead": (lambda s, _: s.work.dead(total=True).total, 0),
    "work.replay": (lambda s, _: s.work.replay("w2"), NotFound),
    "work.drop": (lambda s, _: s.work.drop("w2"), False),
    "work.stuck": (lambda s, _: s.work.stuck(), []),
    "work.stuck of one": (lambda s, _: s.work.stuck("s"), []),
    "tickets.get": (lambda s, _: s.tickets.get("k1"), None),
    "tickets.list": (lambda s, _: s.tickets.list(status=None).items, []),
    "tickets.resolve": (lambda s, _: s.tickets.resolve("k1", "approve", by="x"), NotFound),
    "tickets.cancel": (lambda s, _: s.tickets.cancel("k1"), False),
    "tickets.expire": (lambda s, _: s.tickets.expire(), []),
    "executions.get": (lambda s, _: s.executions.get("x1"), None),
    "executions.list": (lambda s, _: s.executions.list(message="m1"), []),
    "executions.unresolved": (lambda s, _: s.executions.unresolved(), []),
    "executions.finish": (lambda s, _: s.executions.finish("x1", result=1), NotFound),
    "executions.retry": (lambda s, _: s.executions.retry("x1"), NotFound),
    "executions.start": (lambda s, _: s.executions.start("s", ticket="k1"), SessionNotFound),
    "runs.recover": (lambda s, _: s.runs.recover(), []),
    "attachments.get": (lambda s, _: s.attachments.get("s", "a1"), None),
    "attachments.uncommitted": (lambda s, _: s.attachments.uncommitted(before=2**60), []),
    "attachments.forget": (lambda s, _: s.attachments.forget("s", "a1"), False),
    "admin.verify": (lambda s, _: s.admin.verify().sessions, 0),
    "admin.vacuum": (lambda s, _: s.admin.vacuum(unreachable=True).nodes, 0),
}


class TestTenants:
    @pytest.fixture
    def lease(self, backend: Bed) -> Lease:
        """A session of the tenant "default" with something in every namespace, and its lease."""
        store = backend.store
        store.sessions.create(id="s", user="u", document={"total_cost": 1})
        with store.turns.begin("s", id="t1", run_id="r1") as turn:
            turn.user("secret", id="m1")
            turn.ask("c1", tool="pay", id="k1", expires_s=0)
            turn.run("running")
            turn.state(k=1)
        store.executions.start("s", id="x1", call_id="c2", tool="pay", message="m1")
        store.branches.create("s", "side", at="m1")
        store.messages.amend("m1", session="s", metadata={"v": 1})
        store.nodes.annotate("s", "m1", {"note": 1})
        store.work.enqueue("s", 2, id="w2")
        with store.work.hold() as (_, claim):
            store.work.fail(claim, "no", bury=True)
        store.work.enqueue("s", 1, id="w1")
        store.attachments.intent("s", "a1", "file:a")
        with suppress(ZeroDivisionError), store.turns.begin("s").draft(id="d1"):
            raise ZeroDivisionError
        lease = store.leases.take("s", owner="ann")
        assert lease is not None
        return lease

    @pytest.mark.promise(14, 193)
    @pytest.mark.parametrize("name", FOREIGN)
    def test_another_tenant_sees_and_changes_nothing(
        self, backend: Bed, lease: Lease, name: str
    ) -> None:
        call, wanted = FOREIGN[name]
        stranger = backend.store.for_tenant("stranger")
        with backend.unchanged("s"):
            if isinstance(wanted, type):
                with pytest.raises(wanted):
                    call(stranger, lease)
            else:
                assert call(stranger, lease) == wanted
        assert backend.store.attachments.get("s", "a1") is not None
        assert backend.store.leases.get("s") == lease

    @pytest.mark.promise(14, 193)
    def test_the_same_id_is_another_session_for_another_tenant(
        self, backend: Bed, lease: Lease
    ) -> None:
        stranger = backend.store.for_tenant("stranger")
        with backend.unchanged("s"):
            stranger.messages.append("s", user("mine", id="m1"), create=True)
            stranger.runs.create("s", id="r1")
            stranger.leases.take("s", owner="bob")
            stranger.sessions.delete("s")
            stranger.sessions.purge("s")
        assert backend.texts("s") == ["secret"]

    @pytest.mark.promise(193)
    def test_a_listing_shows_one_user_only(self, backend: Bed) -> None:
        for tenant in ("default", "stranger"):
            for name in ("ada", "bob"):
                store = backend.store.for_tenant(tenant)
                store.sessions.create(id=f"{tenant} {name}", user=name)
        listed = backend.store.sessions.list(user="ada")
        assert [session.id for session in listed] == ["default ada"]

    def test_a_handle_without_a_tenant_refuses_data(self, backend: Bed) -> None:
        root = backend.open(tenant=None)
        with pytest.raises(Misuse):
            root.sessions.create(id="s")
        with pytest.raises(Misuse):
            root.messages.history("s")
        root.for_tenant("acme").sessions.create(id="s")
        assert root.admin.tenants() == ["acme"]

    def test_a_batch_read_can_not_reach_another_tenant(self, backend: Bed, lease: Lease) -> None:
        stranger = backend.store.for_tenant("stranger")
        with pytest.raises(InvalidValue) as caught:
            stranger.read(ReadMessages(tenant="default", session="s"))
        assert caught.value.field == "tenant"

    def test_a_lease_of_one_tenant_opens_nothing_in_another(
        self, backend: Bed, lease: Lease
    ) -> None:
        stranger = backend.store.for_tenant("stranger")
        stranger.sessions.create(id="s")
        with pytest.raises(Fenced):
            stranger.messages.append("s", user("x"), lease=lease)
        assert stranger.messages.history("s") == []


def _tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
