"""Health: what a store says about itself, and that looking leaves no trace."""

from __future__ import annotations

import pytest

from ledgerstone import Store, user
from ledgerstone.errors import StoreClosed
from ledgerstone.testing.bed import Bed

DURABILITIES = ("none", "process", "power")


class TestHealth:
    @pytest.mark.promise(184)
    def test_a_usable_store_is_well(self, backend: Bed) -> None:
        backend.store.messages.append("s", user("hi"), create=True)
        health = backend.store.admin.health()
        assert health.ok
        assert health.backend == backend.name
        assert health.schema >= 1

    @pytest.mark.promise(185)
    def test_looking_leaves_no_trace(self, backend: Bed) -> None:
        backend.store.messages.append("s", user("hi"), create=True)
        first = backend.store.admin.stats()
        with backend.unchanged("s"):
            health = backend.store.admin.health()
        assert health == backend.store.admin.health()
        assert backend.store.admin.stats().counts == first.counts
        assert backend.store.sessions.count(deleted=True) == 1

    @pytest.mark.promise(184)
    def test_stats_count_what_all_tenants_have(self, backend: Bed) -> None:
        assert backend.store.admin.stats().counts["sessions"] == 0
        for name in ("default", "acme"):
            store = backend.store.for_tenant(name)
            store.messages.append("s", user("hi"), create=True)
            store.messages.append("s", user("again"))
        counts = backend.store.admin.stats().counts
        assert (counts["sessions"], counts["nodes"], counts["turns"]) == (2, 4, 4)

    @pytest.mark.promise(186)
    def test_a_backend_has_a_name_and_says_whether_it_needs_a_network(self, backend: Bed) -> None:
        capabilities = backend.store.capabilities
        assert capabilities.name == backend.name
        assert isinstance(capabilities.requires_network, bool)

    @pytest.mark.promise(187)
    def test_durability_in_force_is_the_one_declared(self, backend: Bed) -> None:
        capabilities = backend.store.capabilities
        assert capabilities.durability in DURABILITIES
        assert backend.store.admin.health().durability == capabilities.durability

    @pytest.mark.promise(187)
    def test_a_store_that_lasts_survives_more_than_the_process(self, backend: Bed) -> None:
        """The default is the backend's best: power where it can, none where nothing is kept."""
        capabilities = backend.store.capabilities
        assert capabilities.persistent == backend.persistent
        assert capabilities.durability == ("power" if backend.persistent else "none")

    @pytest.mark.promise(187)
    def test_what_was_acknowledged_is_there_after_a_reopening(self, backend: Bed) -> None:
        for n in range(3):
            backend.store.messages.append("s", user(str(n)), create=True)
            backend.reopen()
        assert backend.texts("s") == ["0", "1", "2"]

    @pytest.mark.promise(184, 188)
    def test_opening_makes_the_place_with_its_parents(self, backend: Bed) -> None:
        """What has no place needs none; what has one is opened where nothing was before."""
        if backend.folder is None:
            assert backend.store.admin.health().ok
            return
        deep = backend.folder / "not" / "yet" / "there" / "store.db"
        assert not deep.parent.exists()
        scheme = backend.url.partition("://")[0] + ":///" if "://" in backend.url else ""
        with Store.open(f"{scheme}{deep}", clock=backend.clock) as store:
            store.messages.append("s", user("hi"), create=True)
            assert store.admin.health().ok
        assert deep.exists()

    def test_a_closed_store_says_so(self, backend: Bed) -> None:
        other = backend.open("default")
        other.messages.append("s", user("hi"), create=True)
        other.close()
        other.close()
        with pytest.raises(StoreClosed):
            other.messages.history("s")
        assert backend.texts("s") == ["hi"]

    def test_tenants_are_known_to_the_operator_with_and_without_sessions(
        self, backend: Bed
    ) -> None:
        backend.store.for_tenant("acme").sessions.create(id="a")
        backend.store.for_tenant("bytes").blobs.put(b"only a blob")
        backend.store.for_tenant("mind").memories.put("n", "k", 1)
        backend.store.for_tenant("traced").traces.save("s", [])
        backend.store.sessions.create(id="b")
        found = sorted(backend.port.tenants())
        assert found == ["acme", "bytes", "default", "mind", "traced"]
