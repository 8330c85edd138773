"""The blocking twin of work_take_async.py: nobody can stop waiting half-way."""

from __future__ import annotations

from ledgerstone.api_sync.commits import release
from ledgerstone.api_sync.handle import Handle
from ledgerstone.commands.work import AbandonClaim, TakeWork
from ledgerstone.errors import LedgerstoneError
from ledgerstone.ports.backend import Grouping
from ledgerstone.records.work import Taken


def send(handle: Handle, command: TakeWork) -> Taken | None:
    """Carry it out. A take that Ctrl-C interrupts ends when its lease runs out."""
    return handle.write(command)


def send_many(handle: Handle, commands: list[TakeWork]) -> list[Taken | LedgerstoneError]:
    """The same for several; who finds nothing is left out."""
    if isinstance(handle.backend, Grouping):
        found = handle.write_many(commands)
        return [one for one in found if one is not None]
    # Elsewhere they stand in one line anyway, and the first who finds nothing is the last to look.
    taken: list[Taken | LedgerstoneError] = []
    for command in commands:
        try:
            one = handle.write(command)
        except LedgerstoneError as error:
            return [*taken, error]
        if one is None:
            break
        taken.append(one)
    return taken


def hand_back(handle: Handle, taken: Taken) -> None:
    """As if it had not been taken: the attempt is not counted, the session is free."""
    claim = taken.claim
    try:
        handle.write(
            AbandonClaim(
                tenant=handle.tenant, session=claim.session, claim=claim.id, token=claim.token
            )
        )
    finally:
        release(handle, taken.lease)
