"""When commands that wait in a line are overdue.

Unless the caller named the time, a command waits while the server answers others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ledgerstone.clock import monotonic_s
from ledgerstone.engines.postgres.planned.queue import PendingCommand
from ledgerstone.errors import LedgerstoneError, OutcomeUnknown, Timeout

if TYPE_CHECKING:
    from ledgerstone.engines.postgres.planned.flusher import SendingQueue


def answered_s(judged: object, before_s: float) -> float:
    """When the server last answered; `judged` is None when it carried nothing out."""
    return before_s if judged is None else monotonic_s()


def waits_until_s(line: SendingQueue, start_s: float, answered_s: float) -> float:
    """Until when one waits outside who came at `start_s`."""
    return (start_s if line.strict else max(start_s, answered_s)) + line.limit_s


def due_s(line: SendingQueue, job: PendingCommand, answered_s: float) -> float:
    """Until when a command may wait; one that was given up may not."""
    if line.strict or job.ends_s == 0.0:
        return job.ends_s
    return max(job.ends_s, answered_s + line.limit_s)


def begin_time(line: SendingQueue, group: Sequence[PendingCommand]) -> None:
    """Their turn has come: unless the caller named the time, it begins now."""
    ends_s = monotonic_s() + line.limit_s
    for job in group:
        if not (line.strict or job.began or job.ends_s == 0.0):
            job.ends_s = ends_s
        job.began = True


def drop_overdue(line: SendingQueue, answered_s: float) -> None:
    """Who waited until the time was over is told so, and not sent."""
    now_s = monotonic_s()
    for job in [job for job in line.waiting if due_s(line, job, answered_s) <= now_s]:
        job.error = over(began=job.unsure)
        line.withdraw(job)


def over(*, began: bool) -> LedgerstoneError:
    if began:
        return OutcomeUnknown("the server did not answer in time")
    return Timeout("the time for this call is over; nothing was sent")
