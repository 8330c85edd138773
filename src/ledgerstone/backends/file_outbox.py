"""The outbox: batches for other sessions and memories that a commit left, on their way there.

A line belongs to one session, so a commit cannot write elsewhere by itself. It leaves such things
in the outbox of its own session; right after it the writer brings each to its target and then
forgets it. A crash between the two finds it there already, and since nothing else was served the
same again makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ledgerstone.backends.file_damage import Damage
from ledgerstone.backends.file_writer import Writer
from ledgerstone.commands import Command
from ledgerstone.commands.memories import PutMemory
from ledgerstone.commands.work import EnqueueWork
from ledgerstone.errors import LedgerstoneError, SessionDeleted, SessionNotFound
from ledgerstone.model.rows import OutboxRow
from ledgerstone.model.state import Tx


class ForgetSent(Command[None], frozen=True, kw_only=True):
    """It has arrived; its row in the outbox goes."""

    number: int
    n: int


def forget_sent(tx: Tx, command: ForgetSent) -> None:
    """Carry it out."""
    tx.state.outbox.delete((command.number, command.n))


def _commands(tenant: str, row: OutboxRow) -> Iterator[Command[Any]]:
    """What has to be done at the target."""
    if row.batch is not None:
        yield EnqueueWork(tenant=tenant, batch=row.batch)
    if row.memory is not None:
        yield PutMemory(tenant=tenant, memory=row.memory)


def deliver(writer: Writer, damage: Damage) -> None:
    """Bring what is in the outbox to its target.

    The commits that put it there are on disk and answered, so nothing is raised here: what a disk
    refuses now is brought after the next command, or when the store is opened again.
    """
    books = writer.books
    for (number, n), row in list(books.state.outbox.scan()):
        journal = books.journals.get(number)
        if journal is None:
            continue  # Its own journal is damaged; nobody writes there.
        try:
            for command in _commands(journal.tenant, row):
                damage.check(command)
                with suppress(SessionNotFound, SessionDeleted):  # Then nobody is left to be told.
                    writer.carry_out(command, at_us=row.at_us)
            sent = ForgetSent(tenant=journal.tenant, number=number, n=n)
            writer.carry_out(sent, forget_sent)
        except LedgerstoneError:
            continue
