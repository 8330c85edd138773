"""A dump that is restored into a younger server: places in the feed and fences only rise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ledgerstone import Store, user
from ledgerstone.cli.app import run
from ledgerstone.errors import Fenced, LeaseExpired, SessionNotFound
from ledgerstone.records.leases import Lease
from ledgerstone.testing.servers import install
from ledgerstone.testing.servers.postgres import PostgresServer

BURNT = 20_000
BURN = (
    f"do $$ begin for i in 1..{BURNT} loop perform pg_current_xact_id(); commit; end loop; end $$"
)


class Stage:
    """Two servers: one that is lost after its last backup, and a new one."""

    def __init__(self, older: PostgresServer, younger: PostgresServer, file: Path) -> None:
        self._older, self._younger, self._file = older, younger, file
        self.lost = older.create_database("agents")
        self.restored = younger.create_database("agents")

    def age(self) -> None:
        """Its transactions have greater numbers than the new server's ever had."""
        with self._older.connected() as connection:
            connection.execute(BURN)

    def back_up(self) -> None:
        program = install.programs() / "pg_dump"
        install.run(program, "-Fc", "-f", str(self._file), "-d", self.lost)

    def restore(self) -> None:
        program = install.programs() / "pg_restore"
        install.run(program, "--exit-on-error", "-d", self.restored, str(self._file))


@pytest.fixture
def stage() -> Iterator[Stage]:
    with PostgresServer(durable=False) as older, PostgresServer(durable=False) as younger:
        file = older.folder / "dump"
        yield Stage(older, younger, file)


def take(store: Store, session: str) -> Lease:
    lease = store.leases.take(session, owner="worker", ttl_s=600)
    assert lease is not None
    return lease


def fill(store: Store) -> None:
    for n in range(3):
        store.messages.append("s", user(f"m{n}"), create=True)
    store.messages.append("gone", user("x"), create=True)
    store.leases.release(take(store, "gone"))
    store.sessions.purge("gone")


def lose(store: Store) -> tuple[list[Lease], str]:
    """What happens after the backup: leases, commits, a session that the backup does not know."""
    leases = []
    for name in ("s", "late", "gone"):
        store.messages.append(name, user("lost"), create=True)
        for _ in range(3):
            leases.append(take(store, name))
            store.leases.release(leases[-1])
        leases.append(take(store, name))
    page = store.feed.read()
    assert page.cursor is not None
    return leases, page.cursor


def test_nothing_that_was_given_out_is_given_out_again(stage: Stage) -> None:
    with Store.open(stage.lost) as store:
        fill(store)
        stage.age()
        store.messages.append("s", user("m3"))
        before = store.feed.read()
        stage.back_up()
        leases, cursor = lose(store)
    stage.restore()
    assert run(["restored", stage.restored]) == 0
    with Store.open(stage.restored) as store:
        assert store.feed.read().entries == before.entries
        assert store.admin.verify().ok
        highest = {lease.session: lease.fence for lease in leases}
        for lease in leases:
            with pytest.raises((Fenced, LeaseExpired, SessionNotFound)):
                store.messages.append(lease.session, user("zombie"), lease=lease)
        for name, fence in highest.items():
            store.messages.append(name, user("new"), create=True)
            assert take(store, name).fence > fence
        new = [(entry.session, entry.revision) for entry in store.feed.read(after=cursor).entries]
        assert new == [("s", 5), ("late", 1), ("gone", 1)]
        assert store.feed.read(after=before.cursor).entries[0].revision == 5
        assert store.admin.verify().ok


def test_new_commits_stand_behind_the_restored_ones_by_themselves(stage: Stage) -> None:
    """Opening is enough for the feed to go on; the fences are what `restored` is for."""
    with Store.open(stage.lost) as store:
        fill(store)
        stage.age()
        store.messages.append("s", user("m3"))
        before = store.feed.read()
        stage.back_up()
        leases, _ = lose(store)
    stage.restore()
    with Store.open(stage.restored) as store:
        store.messages.append("s", user("new"))
        entries = store.feed.read(after=before.cursor).entries
        assert [(entry.session, entry.revision) for entry in entries] == [("s", 5)]
        assert entries[0].pos > before.entries[-1].pos
        fences = {lease.fence for lease in leases if lease.session == "s"}
        with suppress(Fenced):
            assert take(store, "s").fence in fences, "the control: without it a fence comes again"
