"""Errors: one class per reaction of the caller, fields instead of prose, absence is None."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ledgerstone import errors, user
from ledgerstone.commands import Command, Query
from ledgerstone.errors import (
    AlreadyExists,
    ClaimLost,
    Conflict,
    Damaged,
    Fenced,
    LedgerstoneError,
    Misuse,
    NotFound,
    NotSupported,
    RevisionMoved,
    SessionNotFound,
    Unavailable,
)
from ledgerstone.testing.bed import Bed

Read = Callable[[Bed], object]

ABSENT: dict[str, tuple[Read, object]] = {
    "sessions.get": (lambda b: b.store.sessions.get("x"), None),
    "sessions.head": (lambda b: b.store.sessions.head("x"), None),
    "sessions.at": (lambda b: b.store.sessions.at("x", 1), None),
    "sessions.load": (lambda b: b.store.sessions.load("x"), None),
    "sessions.picker": (lambda b: b.store.sessions.picker("x"), None),
    "sessions.document": (lambda b: b.store.sessions.document("x"), None),
    "sessions.state": (lambda b: b.store.sessions.state("x"), {}),
    "sessions.states": (lambda b: b.store.sessions.states(["x"]), {}),
    "sessions.recovery": (lambda b: b.store.sessions.recovery("x"), None),
    "sessions.exists": (lambda b: b.store.sessions.exists("x"), False),
    "sessions.list": (lambda b: b.store.sessions.list(user="x").items, []),
    "messages.history": (lambda b: b.store.messages.history("x"), []),
    "messages.last": (lambda b: b.store.messages.last("x"), []),
    "messages.list": (lambda b: b.store.messages.list("x").items, []),
    "messages.iter": (lambda b: list(b.store.messages.iter("x")), []),
    "messages.range": (lambda b: b.store.messages.range("x", 1, 9), []),
    "messages.get": (lambda b: b.store.messages.get("x"), None),
    "messages.get in": (lambda b: b.store.messages.get("x", session="x"), None),
    "messages.count": (lambda b: b.store.messages.count("x"), 0),
    "messages.versions": (lambda b: b.store.messages.versions("x", session="x"), []),
    "nodes.get": (lambda b: b.store.nodes.get("x", "x"), None),
    "nodes.find": (lambda b: b.store.nodes.find("x"), []),
    "nodes.iter": (lambda b: list(b.store.nodes.iter("x")), []),
    "nodes.path": (lambda b: b.store.nodes.path("x"), []),
    "nodes.notes": (lambda b: b.store.nodes.notes("x", ["x"]), {}),
    "branches.list": (lambda b: b.store.branches.list("x"), []),
    "turns.get": (lambda b: b.store.turns.get("x", "x"), None),
    "turns.list": (lambda b: b.store.turns.list("x"), []),
    "runs.get": (lambda b: b.store.runs.get("x"), None),
    "runs.tree": (lambda b: b.store.runs.tree("x"), None),
    "runs.list": (lambda b: b.store.runs.list(session="x").items, []),
    "runs.latest": (lambda b: b.store.runs.latest("x"), None),
    "leases.get": (lambda b: b.store.leases.get("x"), None),
    "drafts.list": (lambda b: b.store.drafts.list("x"), []),
    "work.list": (lambda b: b.store.work.list("x"), []),
    "tickets.get": (lambda b: b.store.tickets.get("x"), None),
    "tickets.inbox": (lambda b: b.store.tickets.inbox(session="x").items, []),
    "executions.get": (lambda b: b.store.executions.get("x"), None),
    "executions.list": (lambda b: b.store.executions.list(session="x"), []),
    "executions.unresolved": (lambda b: b.store.executions.unresolved(session="x"), []),
    "runs.recover": (lambda b: b.store.runs.recover(), []),
    "attachments.get": (lambda b: b.store.attachments.get("x", "x"), None),
}


class UnheardOf(Query[None], frozen=True, kw_only=True):
    """A query of some later version."""


class NeverHeardOf(Command[None], frozen=True, kw_only=True):
    """A command of some later version."""


class TestErrors:
    @pytest.mark.promise(195)
    def test_what_is_not_found_is_named(self, backend: Bed) -> None:
        with pytest.raises(SessionNotFound) as caught:
            backend.store.messages.append("x", user("hi"))
        assert isinstance(caught.value, NotFound)
        assert caught.value.id == "x"
        assert str(caught.value).startswith("session not found: x; ")

    @pytest.mark.promise(196)
    def test_what_already_exists_is_named(self, backend: Bed) -> None:
        backend.store.sessions.create(id="x", title="one")
        with backend.unchanged("x"), pytest.raises(AlreadyExists) as caught:
            backend.store.sessions.create(id="x", title="two")
        assert isinstance(caught.value, Conflict)
        assert (caught.value.id, str(caught.value)) == ("x", "already exists: x")

    @pytest.mark.promise(197)
    def test_a_version_conflict_names_both_versions(self, backend: Bed) -> None:
        store = backend.store
        for n in range(2):
            store.messages.append("x", user(str(n)), create=True)
        with backend.unchanged("x"), pytest.raises(RevisionMoved) as caught:
            store.messages.append("x", user("late"), expected_revision=1)
        assert isinstance(caught.value, Conflict)
        assert str(caught.value) == "version conflict: expected 1, actual 2"

    @pytest.mark.promise(198)
    def test_the_tree_tells_reactions_apart(self, backend: Bed) -> None:
        """Retry later, repair, report: a caller can tell them apart by class."""
        assert issubclass(errors.Corrupt, Damaged)
        assert issubclass(errors.NotADatabase, Damaged)
        assert issubclass(errors.SchemaTooNew, Damaged)
        assert issubclass(errors.StorageFull, Unavailable)
        assert issubclass(errors.ReadOnly, Unavailable)
        assert (Unavailable.retryable, errors.OutcomeUnknown.retryable) == (True, True)
        assert (Damaged.retryable, Conflict.retryable, Misuse.retryable) == (False, False, False)
        broken = errors.Corrupt("nodes", "s/1", "body", "not JSON")
        assert (broken.table, broken.key, broken.field) == ("nodes", "s/1", "body")
        said = errors.BackendError(backend.name, "odd")
        assert (said.backend, said.reason) == (backend.name, "odd")

    @pytest.mark.promise(199)
    def test_a_lost_claim_is_a_lost_session(self, backend: Bed) -> None:
        lost = ClaimLost("s", "c")
        assert isinstance(lost, Fenced)
        assert (lost.session, lost.claim) == ("s", "c")

    @pytest.mark.promise(198, 199)
    def test_every_error_has_one_root(self) -> None:
        named = [kind for kind in vars(errors).values() if isinstance(kind, type)]
        assert len(named) > 25
        assert all(issubclass(kind, LedgerstoneError) for kind in named)

    @pytest.mark.promise(200)
    @pytest.mark.parametrize("name", ABSENT)
    def test_absence_on_a_read_is_no_error(self, backend: Bed, name: str) -> None:
        read, nothing = ABSENT[name]
        assert read(backend) == nothing

    @pytest.mark.promise(201)
    def test_a_query_that_a_backend_does_not_know_is_refused(self, backend: Bed) -> None:
        with pytest.raises(NotSupported) as caught:
            backend.ask(UnheardOf(tenant="default"))
        assert caught.value.capability == "UnheardOf"

    @pytest.mark.promise(201)
    def test_a_command_that_a_backend_does_not_know_is_refused(self, backend: Bed) -> None:
        with pytest.raises(NotSupported) as caught:
            backend.write(NeverHeardOf(tenant="default"))
        assert caught.value.capability == "NeverHeardOf"
