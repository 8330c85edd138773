"""What can go wrong, one class per reaction of the caller.

    LedgerstoneError            .retryable says whether the same call may succeed later
      Misuse                    fix the code
        InvalidValue            a value breaks a rule; .field names it
        SessionBindingMismatch  a turn or lease of one session used for another
        StoreClosed             the store was closed, or carried over a fork
        NotSupported            the backend lacks a capability
      NotFound                  SessionNotFound, MessageNotFound, NodeNotFound, BranchNotFound,
                                RunNotFound, TicketNotFound, ExecutionNotFound, BatchNotFound,
                                BlobNotFound
      Conflict                  read again, then decide
        AlreadyExists           another thing has this id
        RevisionMoved           somebody committed first
          IncarnationMoved      the session was purged since, and made anew; or there is one already
        LeafMoved               the branch does not stand where it was expected
        LeaseMoved              the session is held under another fence than the one to be broken
        TurnConflict            this turn id was committed with other content
        SessionDeleted          restore it first
        SessionRetired          this id is never used again
        SessionHasChildren      say what becomes of them: detach or cascade
        IllegalTransition       a run cannot go from this status to that one
        TicketClosed            the ticket was decided otherwise, or not approved
        TicketStale             what would run is not what was approved
        ExecutionUnresolved     the tool may have run already; decide before it runs again
        ExecutionResolved       the execution has another outcome already
        BudgetExceeded          a budget is used up, or the use would go beyond it
        QuotaExceeded           the session keeps as much as it may
        CopyConflict            the target of a copy holds something else
        CopyDisturbed           the source of a copy was written to; copy it while nobody writes
      LeaseHeld                 wait: another worker owns the session
      LeaseExpired              take the lease again, commit the same turn
      Fenced                    stop now: a newer owner has the session
        ClaimLost               the queue claim belongs to somebody else now
          WorkInterrupted       the queue was interrupted; nobody waits for this work any more
      Unavailable               retryable: Busy, Timeout; StorageFull, ReadOnly want a person first
      AccessDenied              a person must give the right password, or a right
      OutcomeUnknown            the write was sent and no answer came; .next_step repeats it safely
      Damaged                   Corrupt, NotADatabase, SchemaTooNew, SchemaTooOld
      BackendError              anything else a driver said (its exception is __cause__)

Errors carry fields, not prose; the text is made from them. Absence on a read is None.
"""

from __future__ import annotations

from ledgerstone.money import in_units

_SHOWN_CHARS = 255


class LedgerstoneError(Exception):
    """The root of every error this package raises."""

    retryable = False


class Misuse(LedgerstoneError):
    """The call itself is wrong; repeating it will not help."""


class InvalidValue(Misuse):
    """A value breaks a rule of the store."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"invalid {field}: {reason}")
        self.field = field
        self.reason = reason


def unknown_node(field: str, id: str) -> InvalidValue:
    """The refusal of a place in the graph that is not there, or is hidden."""
    return InvalidValue(
        field, f"no such node: {id}; store.nodes.iter(session) shows the nodes and their ids"
    )


class SessionBindingMismatch(Misuse):
    """A turn or lease is bound to one session and was used for another."""

    def __init__(self, bound: str, other: str) -> None:
        super().__init__(f"bound to session {bound!r}, used for session {other!r}")
        self.bound = bound
        self.other = other


class StoreClosed(Misuse):
    """The store is closed, or belongs to another process."""


class NotSupported(Misuse):
    """The backend does not have this capability."""

    def __init__(self, capability: str, backend: str = "", hint: str = "") -> None:
        where = f" by {backend}" if backend else ""
        super().__init__(f"not supported{where}: {capability}" + (f"; {hint}" if hint else ""))
        self.capability = capability
        self.backend = backend


class NotFound(LedgerstoneError):
    """The thing to be changed is not there. Each kind says in `hint` how to find or make one."""

    noun = ""
    hint = ""

    def __init__(self, id: str, *, noun: str = "", hint: str = "") -> None:
        shown = id if id.isprintable() and 0 < len(id) <= _SHOWN_CHARS else f"{id!r:.80}"
        self.noun, self.hint = noun or self.noun, hint or self.hint
        said = f"{self.noun} not found: {shown}".lstrip()
        super().__init__(f"{said}; {self.hint}" if self.hint else said)
        self.id = id


class SessionNotFound(NotFound):
    """No such session in this tenant."""

    noun = "session"
    hint = "create it with store.sessions.ensure(id), or pass create=True to a call that takes it"


class MessageNotFound(NotFound):
    """No such message in this session."""

    noun = "message"
    hint = "store.messages.history(session) shows the messages and their ids"


class NodeNotFound(NotFound):
    """No such node in this session."""

    noun = "node"
    hint = "store.nodes.iter(session) shows the nodes and their ids"


class BranchNotFound(NotFound):
    """No such branch in this session."""

    noun = "branch"
    hint = "store.branches.list(session) shows the branches, store.branches.create makes one"


class RunNotFound(NotFound):
    """No such run in this tenant."""

    noun = "run"
    hint = "store.runs.list() shows the runs, store.runs.create(session, id=...) makes one"


class TicketNotFound(NotFound):
    """No such ticket in this tenant."""

    noun = "ticket"
    hint = "store.tickets.list(status=None) shows the tickets, decided ones too"


class ExecutionNotFound(NotFound):
    """No such execution in this tenant."""

    noun = "execution"
    hint = "store.executions.list(session=...) shows the executions of a session"


class BatchNotFound(NotFound):
    """No such dead batch in this tenant."""

    noun = "dead batch"
    hint = "store.work.dead() shows the dead batches, store.work.list(session) those in the queue"


class BlobNotFound(NotFound):
    """The tenant has no such bytes."""

    noun = "blob"
    hint = "store the bytes with store.blobs.put(data), and use the ref that it returns"


class Conflict(LedgerstoneError):
    """The store moved on or holds something else; read again, then decide."""


class AlreadyExists(Conflict):
    """The id is taken by other content."""

    def __init__(self, id: str) -> None:
        super().__init__(f"already exists: {id}")
        self.id = id


class RevisionMoved(Conflict):
    """The session is at another revision than expected."""

    said = "version conflict: expected {}, actual {}"

    def __init__(self, expected: int, actual: int, session: str = "") -> None:
        super().__init__(self.said.format(expected, actual))
        self.expected = expected
        self.actual = actual
        self.session = session


class IncarnationMoved(RevisionMoved):
    """The session of this id is another one than expected, or there was to be none."""

    said = "not that session: expected incarnation {}, actual {}"


class LeafMoved(Conflict):
    """The branch stands at another node than expected."""

    def __init__(
        self, branch: str, expected: str | None, actual: str | None, hint: str = ""
    ) -> None:
        said = f"branch {branch!r} moved: expected {expected}, actual {actual}"
        super().__init__(f"{said}; {hint}" if hint else said)
        self.branch = branch
        self.expected = expected
        self.actual = actual


class LeaseMoved(Conflict):
    """The session is held under another fence than the one that was to be broken."""

    def __init__(self, session: str, fence: int, current: int) -> None:
        super().__init__(
            f"session {session} is held under fence {current}, not {fence}: the lease you saw is "
            "over and this one was not touched; look at it with leases.get, then decide"
        )
        self.session = session
        self.fence = fence
        self.current = current


class TurnConflict(Conflict):
    """The turn id was already committed with other content."""

    def __init__(self, session: str, turn: str) -> None:
        super().__init__(f"turn {turn!r} of session {session!r} was committed with other content")
        self.session = session
        self.turn = turn


class SessionDeleted(Conflict):
    """The session is soft-deleted; restore it to write again."""

    def __init__(self, session: str) -> None:
        super().__init__(f"session is deleted: {session} (restore it to write again)")
        self.session = session


class SessionRetired(Conflict):
    """The session was purged for good and its id may not be used again."""

    def __init__(self, session: str) -> None:
        super().__init__(f"session is retired: {session} (its id cannot be used again)")
        self.session = session


class SessionHasChildren(Conflict):
    """Other sessions have this one as their parent; `children` counts them."""

    def __init__(self, session: str, children: int) -> None:
        super().__init__(
            f"session {session} is the parent of {children} others; children='detach' lets them "
            "stay, children='cascade' removes them with it"
        )
        self.session = session
        self.children = children


class IllegalTransition(Conflict):
    """A run cannot go from one status to the other."""

    def __init__(self, run: str, old: str, new: str) -> None:
        super().__init__(f"run {run} cannot go from {old} to {new}")
        self.run = run
        self.old = old
        self.new = new


class TicketClosed(Conflict):
    """The ticket does not allow this: it was decided otherwise, withdrawn, or not decided yet."""

    def __init__(self, ticket: str, status: str, reason: str = "") -> None:
        super().__init__(f"ticket {ticket} is {status}" + (f": {reason}" if reason else ""))
        self.ticket = ticket
        self.status = status
        self.reason = reason


class TicketStale(Conflict):
    """What would run is not what was approved; ask again."""

    def __init__(self, ticket: str, reason: str) -> None:
        super().__init__(f"ticket {ticket} approves something else: {reason}")
        self.ticket = ticket
        self.reason = reason


class ExecutionUnresolved(Conflict):
    """The tool was called and nobody knows the outcome: retry it, or finish it, explicitly."""

    def __init__(self, execution: str, call_id: str) -> None:
        super().__init__(
            f"execution {execution} of call {call_id} was started and has no outcome; "
            "retry it or finish it"
        )
        self.execution = execution
        self.call_id = call_id


class ExecutionResolved(Conflict):
    """The execution has another outcome already."""

    def __init__(self, execution: str, status: str) -> None:
        super().__init__(f"execution {execution} has {status} already")
        self.execution = execution
        self.status = status


class BudgetExceeded(Conflict):
    """A budget is used up, or what is asked for does not fit in it; nothing was done.

    `unit` is "tokens" or a currency, and then the counts are nano-units of it. `used` is what the
    period has seen, `asked` what would be added: None when its cost there is not known, 0 when a
    turn was to begin and nothing is left.
    """

    def __init__(
        self,
        id: str,
        limit: int,
        used: int,
        asked: int | None,
        unit: str,
        scope: str = "tenant",
        subject: str | None = None,
        period: str = "total",
    ) -> None:
        say = str if unit == "tokens" else in_units
        whose = f"{scope} {subject}" if subject else scope
        more, step = ", a use of unknown cost", f"give its cost in {unit}"
        other = "record what was used already with over_budget=True"
        if asked is not None:
            more, step = f", {say(asked)} more asked for", "raise it with usage.budget"
        if asked == 0:
            more = ", no turn may begin"
            other = "drop it" if period == "total" else f"wait for the next {period} (UTC)"
        super().__init__(
            f"budget of {whose} ({period}) exceeded: {say(used)} of {say(limit)} {unit} used"
            f"{more}; {step}, or {other}"
        )
        self.id = id
        self.limit = limit
        self.used = used
        self.asked = asked
        self.unit = unit
        self.scope, self.subject, self.period = scope, subject, period


class QuotaExceeded(Conflict):
    """A session keeps as many artifacts, or as many bytes of them, as it may."""

    def __init__(self, session: str, limit: int, asked: int, unit: str) -> None:
        super().__init__(
            f"quota exceeded in session {session}: {asked} of {limit} {unit}; delete some, raise "
            f"the quota, or let the oldest go with on_full='oldest_out'"
        )
        self.session = session
        self.limit = limit
        self.asked = asked
        self.unit = unit


class CopyConflict(Conflict):
    """The target of a copy has another row than the source, or one that the source has not.

    Nothing of the target was replaced.
    """

    def __init__(self, table: str, key: str, tenant: str = "") -> None:
        whose = f" of tenant {tenant!r}" if tenant else ""
        super().__init__(f"the target has other content{whose}: {table} {key}".rstrip())
        self.table = table
        self.key = key
        self.tenant = tenant


class CopyDisturbed(Conflict):
    """The source of a copy was written to while it was read: the target is no copy of it."""

    def __init__(self, tenant: str, table: str) -> None:
        super().__init__(f"the source changed while it was copied: {table} of tenant {tenant!r}")
        self.tenant = tenant
        self.table = table


class LeaseHeld(LedgerstoneError):
    """Another worker holds the session; wait until it expires or is released."""

    retryable = True

    def __init__(self, session: str, owner: str, expires_us: int) -> None:
        super().__init__(f"session {session} is held by {owner}")
        self.session = session
        self.owner = owner
        self.expires_us = expires_us


class LeaseExpired(LedgerstoneError):
    """The lease is over and nobody took it; take it again and commit the same turn.

    `ended`: it was held for the length of a block, and that block has ended.
    """

    def __init__(self, session: str, fence: int, *, ended: bool = False) -> None:
        over = f"lease of session {session} expired (fence {fence})"
        if ended:
            over = (
                f"the block that held session {session} has ended (fence {fence}); write inside "
                "the block, or hold the session again and pass the new lease, as in "
                "turn.commit(lease=...)"
            )
        super().__init__(over)
        self.session = session
        self.fence = fence
        self.ended = ended


class Fenced(LedgerstoneError):
    """A newer owner has the session: stop now."""

    def __init__(self, session: str, yours: int, current: int) -> None:
        super().__init__(f"session {session}: fence {yours} is stale, current is {current}")
        self.session = session
        self.yours = yours
        self.current = current


class ClaimLost(Fenced):
    """The queue claim belongs to another owner now."""

    def __init__(self, session: str, claim: str) -> None:
        LedgerstoneError.__init__(self, f"claim {claim} of session {session} is lost")
        self.session = session
        self.claim = claim
        self.yours = self.current = 0


class WorkInterrupted(ClaimLost):
    """The queue was interrupted while the claim was held; it is not renewed any more."""

    def __init__(self, session: str, claim: str, reason: str) -> None:
        LedgerstoneError.__init__(
            self, f"claim {claim} of session {session} is not renewed: {reason}"
        )
        self.session = session
        self.claim = claim
        self.reason = reason
        self.yours = self.current = 0


class Unavailable(LedgerstoneError):
    """The store cannot answer now; nothing was written."""

    retryable = True


class Busy(Unavailable):
    """Another process holds the store."""


class Timeout(Unavailable):
    """The deadline passed before the store answered."""


class StorageFull(Unavailable):
    """No space left; everything acknowledged before is kept. Free space, then repeat."""


class ReadOnly(Unavailable):
    """The place can be read but not written; change its permissions, then open again."""


class AccessDenied(LedgerstoneError):
    """The server knows neither this user nor this password, or withholds a right; do not repeat."""


class OutcomeUnknown(LedgerstoneError):
    """The write was sent and no answer came: it was carried out, or it was not.

    Of a commit, and appending is one, `turn` is its id: `store.turns.outcome(error)` answers the
    committed turn or None. `session` is the session it was about. `id` is the id that the call
    drew or was given. `next_step` says how to repeat the call without doing it twice.
    """

    retryable = True
    spent = False
    """The backend has tried to find out until its deadline: nobody repeats at once."""

    def __init__(
        self,
        reason: str,
        *,
        session: str | None = None,
        turn: str | None = None,
        id: str | None = None,
        next_step: str = "",
    ) -> None:
        super().__init__(f"{reason}; {next_step}" if next_step else reason)
        self.reason = reason
        self.session = session
        self.turn = turn
        self.id = id
        self.next_step = next_step


class Damaged(LedgerstoneError):
    """What is stored cannot be used as it is."""


class Corrupt(Damaged):
    """A stored value does not decode; nothing was guessed in its place."""

    def __init__(self, table: str, key: str, field: str, reason: str = "") -> None:
        super().__init__(f"corrupt {table}[{key}].{field}" + (f": {reason}" if reason else ""))
        self.table = table
        self.key = key
        self.field = field
        self.reason = reason


class NotADatabase(Damaged):
    """The file is something else than a Ledgerstone store; it was not touched."""


class SchemaTooNew(Damaged):
    """The store was written by a newer version; nothing was touched."""

    def __init__(self, kind: str, actual: int, expected: int) -> None:
        known = f"this code knows {expected}; install a newer one"
        super().__init__(f"{kind} has version {actual}, {known}")
        self.kind = kind
        self.actual = actual
        self.expected = expected


class SchemaTooOld(Damaged):
    """The record version is no longer read; migrate the store first."""

    def __init__(self, kind: str, actual: int, expected: int, hint: str = "migrate it") -> None:
        super().__init__(f"{kind} has version {actual}, this code needs {expected}; {hint}")
        self.kind = kind
        self.actual = actual
        self.expected = expected


class BackendError(LedgerstoneError):
    """The driver said something nobody foresaw; its exception is the cause."""

    def __init__(self, backend: str, reason: str) -> None:
        super().__init__(f"{backend}: {reason}")
        self.backend = backend
        self.reason = reason
