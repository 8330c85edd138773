"""The outbox: batches that a commit enqueued in other sessions, on their way there.

A line belongs to one session, so a commit can not enqueue elsewhere by itself. It leaves the batch
in the outbox of its own session, and right after it the writer enqueues it at its target and then
forgets it. A crash between the two finds the batch queued already, since nothing else was served.
"""

from __future__ import annotations

from contextlib import suppress

from ledgerstone.backends.file_damage import Damage
from ledgerstone.backends.file_writer import Writer
from ledgerstone.commands import Command
from ledgerstone.commands.work import EnqueueWork
from ledgerstone.errors import LedgerstoneError, SessionDeleted, SessionNotFound
from ledgerstone.model.state import Tx


class ForgetSent(Command[None], frozen=True, kw_only=True):
    """A batch has arrived; its row in the outbox goes."""

    number: int
    n: int


def forget_sent(tx: Tx, command: ForgetSent) -> None:
    """Carry it out."""
    tx.state.outbox.delete((command.number, command.n))


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
        enqueue = EnqueueWork(tenant=journal.tenant, batch=row.batch)
        try:
            damage.check(enqueue)
            with suppress(SessionNotFound, SessionDeleted):  # Then nobody is left to be told.
                writer.carry_out(enqueue, at_us=row.at_us)
            sent = ForgetSent(tenant=journal.tenant, number=number, n=n)
            writer.carry_out(sent, forget_sent)
        except LedgerstoneError:
            continue
