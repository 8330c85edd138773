"""A child that makes or restores a backup and is killed at one of its steps."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from ledgerstone import Store
from ledgerstone.backups import restore
from ledgerstone.testing.faults.processes import Say

STEPS = ("open", "rename", "replace", "unlink", "link", "fsync", "mkdir", "fdatasync")


def die_at(step: int) -> None:
    """Let the process kill itself right before its n-th change of the file system."""
    left = [step]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*args: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **more)

        return instead

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))


def backing_up(say: Say, source: str, blobs: str | None, target: str, step: int) -> None:
    with Store.open(source, blobs=blobs, read_only=True) as store:
        die_at(step)
        store.admin.backup(target)
    say(b"done")


def restoring(say: Say, backup: str, target: str, blobs: str | None, step: int) -> None:
    die_at(step)
    restore(backup, target, blobs=blobs)
    say(b"done")


def careless(say: Say, source: str, blobs: str | None, target: str, step: int) -> None:
    """The control: copies straight to the target's name."""
    with open(source, "rb") as old:  # noqa: PTH123
        data = old.read()
    with open(target, "wb") as new:  # noqa: PTH123
        new.write(data[: len(data) // 2])
        new.flush()
        die_at(step)
        os.fsync(new.fileno())
    say(b"done")
