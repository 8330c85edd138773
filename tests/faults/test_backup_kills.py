"""`admin.backup` and `restore` killed at each step: whole under its name, or not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import Store, user
from ledgerstone.backups import restore
from ledgerstone.errors import LedgerstoneError
from ledgerstone.testing.faults.processes import Child
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.backends.places import quick_disk
from tests.faults.backing_up import backing_up, careless, restoring

pytestmark = [pytest.mark.faults, pytest.mark.crash]

WAIT_S = 60.0
STEPS_MAX = 400
KINDS = ("sqlite", "sqlite with blobs", "file")


class Shop:
    """A store of one kind with two messages and some blobs, and where its backup goes."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.prefix = "file://" if kind == "file" else ""
        self.source, self.target = folder / "store", folder / "backup"
        self.blobs = str(folder / "bytes") if kind == "sqlite with blobs" else None
        self.target_blobs = f"{self.target}-blobs" if self.blobs else None
        with Store.open(self.url(self.source), blobs=self.blobs) as store:
            store.messages.append("s", user("one"), create=True)
            for n in range(3):
                store.blobs.put(b"%d" % n * 1000)
            store.messages.append("s", user("two"))

    def url(self, path: Path) -> str:
        return f"{self.prefix}{path}"

    def state(self, path: Path, blobs: str | None) -> str:
        """What is found under a name: "none", "refused", or the texts, verified."""
        if not path.exists():
            return "none"
        try:
            with Store.open(self.url(path), blobs=blobs, read_only=True) as store:
                found = store.admin.verify(blobs=True)
                if not found.ok or found.blobs < 3:
                    return f"defects {found.defects[:2]}, {found.blobs} blobs"
                return " ".join(message.text for message in store.messages.history("s"))
        except LedgerstoneError as error:
            return f"refused: {error}"


def killed(victim: Callable[..., None], *arguments: Any) -> bool:
    """Whether the child died before it was done."""
    child = Child(victim, *arguments)
    try:
        return not any(data == b"done" for data in child.hear(WAIT_S))
    finally:
        child.kill()


def steps(scale: Scale) -> Iterator[int]:
    """Each step; a quick run takes some of them, the first ones densely."""
    stride = scale(7, 1)
    yield from range(0, STEPS_MAX, stride)


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_backup_is_whole_or_absent(
    kind: str, tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    with (
        scoreboard.line(
            f"backup killed at each step, {kind}", "sqlite" if kind != "file" else kind
        ) as line,
        quick_disk(tmp_path) as folder,
    ):
        (folder / "one").mkdir()
        shop = Shop(folder / "one", kind)
        for step in steps(scale):
            target = folder / f"b{step}"
            blobs = f"{target}-blobs" if shop.blobs else None
            died = killed(backing_up, shop.url(shop.source), shop.blobs, str(target), step)
            line.n += 1
            found = shop.state(target, blobs)
            if found not in (("none", "one two") if died else ("one two",)):
                line.violations.append(f"step {step}: {found}")
            if not died:
                break
        else:
            line.violations.append("it never came to its end")
        if shop.state(shop.source, shop.blobs) != "one two":
            line.violations.append("the store itself was changed")


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_restore_leaves_old_or_new_or_is_refused_and_can_be_repeated(
    kind: str, tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    with (
        scoreboard.line(
            f"restore killed at each step, {kind}", "sqlite" if kind != "file" else kind
        ) as line,
        quick_disk(tmp_path) as folder,
    ):
        for step in steps(scale):
            place = folder / f"p{step}"
            place.mkdir()
            shop = Shop(place, kind)
            with Store.open(shop.url(shop.source), blobs=shop.blobs) as store:
                store.admin.backup(shop.target)
                store.messages.append("s", user("bad"))
            died = killed(restoring, shop.url(shop.target), shop.url(shop.source), shop.blobs, step)
            line.n += 1
            found = shop.state(shop.source, shop.blobs)
            old, new = "one two bad", "one two"
            fine = found in (old, new, "none") or found.startswith("refused")
            if not (fine if died else found == new):
                line.violations.append(f"step {step}: {found}")
            if died:
                restore(shop.url(shop.target), shop.url(shop.source), blobs=shop.blobs)
                if (again := shop.state(shop.source, shop.blobs)) != new:
                    line.violations.append(f"step {step}, repeated: {again}")
            else:
                break
        else:
            line.violations.append("it never came to its end")


def test_control_a_copy_to_the_name_itself_is_found_out(
    tmp_path: Path, scoreboard: Scoreboard
) -> None:
    with scoreboard.line("copy to the name itself, killed", "sqlite", control=True) as line:
        shop = Shop(tmp_path, "sqlite")
        assert killed(careless, str(shop.source), None, str(shop.target), 0)
        line.n = 1
        found = shop.state(shop.target, None)
        assert found not in ("none", "one two")
        line.violations.append(found)
