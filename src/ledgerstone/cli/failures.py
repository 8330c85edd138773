"""Errors as a person at a terminal needs them: what is wrong, what to do next, which exit code."""

from __future__ import annotations

from ledgerstone.errors import (
    AccessDenied,
    BackendError,
    BranchNotFound,
    Busy,
    CopyConflict,
    CopyDisturbed,
    Corrupt,
    ExecutionNotFound,
    ExecutionResolved,
    InvalidValue,
    LedgerstoneError,
    NotADatabase,
    NotFound,
    NotSupported,
    ReadOnly,
    RunNotFound,
    SchemaTooNew,
    SchemaTooOld,
    SessionNotFound,
    StorageFull,
    TicketClosed,
    TicketNotFound,
    Unavailable,
)

OK = 0
DEFECTS = 1
MISUSE = 2
INTERRUPTED = 130
PIPE_CLOSED = 141

_DOCTOR = "`ledgerstone doctor` says how the store is doing"
_FOUND_BY: dict[type[LedgerstoneError], str] = {
    SessionNotFound: "`ledgerstone sessions` lists what is there, --tenant chooses the tenant",
    TicketNotFound: "`ledgerstone inbox` lists what is open",
    ExecutionNotFound: "`ledgerstone executions` lists those without an outcome",
    BranchNotFound: "`ledgerstone tree` shows them",
    RunNotFound: "`ledgerstone runs` lists them",
}
_NEXT: tuple[tuple[type[LedgerstoneError], str], ...] = (
    (NotADatabase, "give a Ledgerstone store with --store"),
    (Corrupt, "`ledgerstone verify` lists every defect"),
    (Busy, "try again when the other process is done"),
    (ReadOnly, "make the file and its directory writable, or copy them elsewhere"),
    (StorageFull, "free some space and try again"),
    (TicketClosed, "`ledgerstone inbox` lists what is open"),
    (ExecutionResolved, "`ledgerstone executions show ID` shows its outcome"),
    (CopyConflict, "nothing of it was replaced; copy to an empty place"),
    (CopyDisturbed, "remove the target, then copy again while nobody writes to the source"),
    (InvalidValue, "see --help"),
)
# These say the next step themselves, behind a semicolon, wherever they know a better one.
_COMPLETE = (
    *(AccessDenied, BackendError, Corrupt, NotADatabase, NotSupported),
    *(SchemaTooNew, SchemaTooOld, Unavailable),
)


class CliError(Exception):
    """One line for a person: what is wrong and what to do."""

    def __init__(self, text: str, exit_code: int = MISUSE) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def explain(error: LedgerstoneError) -> CliError:
    """The error of a store with its next step; damage is a defect, all else misuse."""
    exit_code = DEFECTS if isinstance(error, Corrupt) else MISUSE
    if isinstance(error, NotFound):
        return CliError(f"no {error.noun} {error.id!r} here; {_FOUND_BY.get(type(error), _DOCTOR)}")
    if isinstance(error, _COMPLETE) and ";" in str(error):
        return CliError(str(error), exit_code)
    for kind, advice in _NEXT:
        if isinstance(error, kind):
            return CliError(f"{error}; {advice}", exit_code)
    return CliError(f"{error}; {_DOCTOR}", exit_code)
