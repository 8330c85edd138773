"""Random families on every engine, compared with a dictionary of parents after every step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ledgerstone import Session, Store
from ledgerstone.commands.sessions import Children
from ledgerstone.errors import InvalidValue, SessionDeleted, SessionHasChildren

NAMES = ("a", "a1", "a2", "ab", "b", "b/1", "c", "ca", "d")
STEPS = 250
HOW: tuple[Children, ...] = ("reject", "detach", "cascade")


class Family:
    """What a family is: who there is, whose child, and who is deleted."""

    def __init__(self) -> None:
        self.parents: dict[str, str | None] = {}
        self.deleted: set[str] = set()

    def above(self, name: str | None) -> list[str]:
        found: list[str] = []
        while name is not None and name not in found:
            found.append(name)
            name = self.parents.get(name)
        return found

    def below(self, name: str) -> set[str]:
        return {one for one in self.parents if one != name and name in self.above(one)}

    def children(self, name: str) -> set[str]:
        return {one for one, parent in self.parents.items() if parent == name}

    def may_have(self, name: str, parent: str | None, *, keep: bool) -> bool:
        if parent is None:
            return True
        if name in self.above(parent):
            return False
        return keep or (parent in self.parents and parent not in self.deleted)


class Walk:
    """Random calls of a store; each must answer what the family says."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.chance = Random(seed)
        self.family = Family()

    def name(self) -> str:
        return self.chance.choice(NAMES)

    def step(self) -> None:
        calls: list[Callable[[], None]] = [
            self.put,
            self.put,
            self.delete,
            self.purge,
            self.restore,
        ]
        self.chance.choice(calls)()
        self.compare()

    def put(self) -> None:
        name, keep = self.name(), self.chance.random() < 0.3
        parent = self.chance.choice((None, *NAMES))
        missing = "keep" if keep else "error"
        known = name in self.family.parents
        new = not known or self.family.parents[name] != parent
        if known and name in self.family.deleted:
            wanted: Any = SessionDeleted
        elif new and not self.family.may_have(name, parent, keep=keep):
            wanted = InvalidValue
        else:
            self.store.sessions.put(Session(id=name, parent=parent), parent_missing=missing)
            self.family.parents[name] = parent
            return
        with pytest.raises(wanted):
            self.store.sessions.put(Session(id=name, parent=parent), parent_missing=missing)

    def delete(self) -> None:
        name, how = self.name(), self.chance.choice(HOW)
        family = self.family
        live = family.children(name) - family.deleted
        there = name in family.parents and name not in family.deleted
        if there and live and how == "reject":
            with pytest.raises(SessionHasChildren) as refused:
                self.store.sessions.delete(name, children=how)
            assert refused.value.children == len(live)
            return
        assert self.store.sessions.delete(name, children=how) is there
        if there:
            family.deleted |= {name, *(family.below(name) if how == "cascade" else ())}
            if how == "detach":
                family.parents.update(dict.fromkeys(live))

    def purge(self) -> None:
        name, how = self.name(), self.chance.choice(HOW)
        family = self.family
        children, there = family.children(name) - {name}, name in family.parents
        if there and children and how == "reject":
            with pytest.raises(SessionHasChildren) as refused:
                self.store.sessions.purge(name, children=how)
            assert refused.value.children == len(children)
            return
        gone = family.below(name) if how == "cascade" else set()
        receipt = self.store.sessions.purge(name, children=how)
        assert (receipt.existed, set(receipt.children)) == (there, gone)
        if how == "detach":
            family.parents.update(dict.fromkeys(children))
        for one in {name, *gone}:
            family.parents.pop(one, None)
        family.deleted -= {name, *gone}

    def restore(self) -> None:
        name = self.name()
        assert self.store.sessions.restore(name) is (name in self.family.deleted)
        self.family.deleted.discard(name)

    def compare(self) -> None:
        family, sessions = self.family, self.store.sessions
        found = {one.id: one.parent for one in sessions.iter(deleted=True)}
        assert found == family.parents
        live = {name for name in family.parents if name not in family.deleted}
        under, prefix = self.name(), self.chance.choice(("a", "b", "c", "b/", "ab", "x"))
        for where, wanted in (
            ({"root": True}, {name for name in live if family.parents[name] is None}),
            ({"under": under}, family.below(under) & live),
            ({"id_prefix": prefix}, {name for name in live if name.startswith(prefix)}),
            (
                {"id_prefix": prefix, "under": under, "deleted": True},
                {name for name in family.below(under) if name.startswith(prefix)},
            ),
        ):
            order = self.chance.choice(("id", "-id", "created", "-updated"))
            listed = [one.id for one in sessions.list(order=order, limit=200, **where)]
            assert sorted(listed) == sorted(wanted)
            assert sessions.count(**where) == len(wanted)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/store.db", "file:///{}/store"])
def test_families_are_what_a_dictionary_says(tmp_path: Path, url: str, seed: int) -> None:
    with Store.open(url.format(tmp_path)) as store:
        walk = Walk(store, seed)
        for _ in range(STEPS):
            walk.step()
        assert store.admin.verify().ok
