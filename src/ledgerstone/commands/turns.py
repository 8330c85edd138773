"""The one command that moves a session: everything a turn is, in one value."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import astuple

from ledgerstone.commands import FREE, Command, Guard, Query, SessionCommand, SessionQuery
from ledgerstone.commands.artifacts import NewArtifact
from ledgerstone.commands.executions import Finish
from ledgerstone.commands.memories import NewMemory
from ledgerstone.commands.nodes import NewNote, NewValue
from ledgerstone.commands.sessions import ParentRule
from ledgerstone.commands.tickets import NewTicket
from ledgerstone.commands.work import Completion, NewBatch
from ledgerstone.records.artifacts import Quota
from ledgerstone.records.reports import Verified
from ledgerstone.records.runs import Run
from ledgerstone.records.sessions import Session
from ledgerstone.records.turns import Checkpoint, TurnCommitted, TurnInfo
from ledgerstone.records.usage import UsageEntry

_UNSET = msgspec.UNSET


class NewNode(msgspec.Struct, frozen=True, gc=False):
    """A node to append.

    `parent` UNSET means: after the node before it on the branch. `on_path` nodes become the
    branch's leaf; others only hang in the graph. `role` is 1 to 4 for messages, else None.
    """

    id: str
    kind: str
    role: int | None
    body: bytes
    salt: bytes
    label: str = ""
    run_id: str | None = None
    meta: bytes | None = None
    format: str | None = None
    refs: tuple[str, ...] = ()
    created_us: int = 0
    parent: str | msgspec.UnsetType | None = _UNSET
    on_path: bool = True


class Rewind(msgspec.Struct, frozen=True):
    """Where the branch's leaf goes before the new nodes follow.

    `to` a node id (None: before the first node), or `pop` that many messages.
    `expected` UNSET: any leaf; otherwise LeafMoved unless the leaf is this one.
    `supersede`: the nodes left behind are tombstoned, unless another branch still shows them.
    """

    to: str | None = None
    pop: int = 0
    expected: str | msgspec.UnsetType | None = _UNSET
    supersede: bool = False


class Amendment(msgspec.Struct, frozen=True):
    """A change of a message's visible fields: canonical JSON of only the changed ones."""

    node: str
    patch: bytes
    salt: bytes


class BranchMove(msgspec.Struct, frozen=True):
    """Create, move or delete a branch.

    `to` is a node id; `to_branch` names another branch instead, resolved inside the commit.
    """

    name: str
    to: str | None = None
    to_branch: str | None = None
    create: bool = False
    delete: bool = False
    expected: str | msgspec.UnsetType | None = _UNSET


class NewCheckpoint(msgspec.Struct, frozen=True):
    """The manifest to store; its values travel in `CommitTurn.values`."""

    ref: str
    manifest: Checkpoint
    data: bytes


class CommitTurn(Command[TurnCommitted], frozen=True, kw_only=True, gc=False):
    """One commit of one session; every part is optional, all of it happens or nothing.

    `blobs` are those that the parts of its messages name: they become attachments of the session.
    `kept_notes` are notes whose first body stays; of `notes` the last one wins.
    `over_budget`: recorded even if a budget refuses such commits, since it was used already.

    `missing_parent` is about nodes, `parent_rule` about the session that `create` makes.

    `kind` says which call made it (turn, append, replace, pop, clear, amend, tombstone, branch,
    state, checkpoint, usage); `hash` covers the content and nothing of the envelope (contract D26).
    """

    session: str
    turn: str
    kind: str
    hash: bytes = b""
    guard: Guard = FREE
    create: Session | None = None
    branch: str = "main"
    nodes: tuple[NewNode, ...] = ()
    missing_parent: str = "error"
    parent_rule: ParentRule = "any"
    state: dict[str, Any] | None = None
    run: Run | None = None
    usage: tuple[UsageEntry, ...] = ()
    complete: tuple[Completion, ...] = ()
    over_budget: bool = False
    release: bool = False
    # From here on, what few turns have: see `is_usual`.
    rewind: Rewind | None = None
    amendments: tuple[Amendment, ...] = ()
    tombstones: tuple[str, ...] = ()
    branches: tuple[BranchMove, ...] = ()
    values: tuple[NewValue, ...] = ()
    notes: tuple[NewNote, ...] = ()
    kept_notes: tuple[NewNote, ...] = ()
    config: bytes | None = None
    frames: bytes | None = None
    checkpoint: NewCheckpoint | None = None
    drop_drafts: tuple[str, ...] = ()
    attach: tuple[str, ...] = ()
    tickets: tuple[NewTicket, ...] = ()
    executions: tuple[Finish, ...] = ()
    enqueue: tuple[NewBatch, ...] = ()
    blobs: tuple[str, ...] = ()
    artifacts: tuple[NewArtifact, ...] = ()
    quota: Quota | None = None
    traces: tuple[bytes, ...] = ()
    reports: tuple[bytes, ...] = ()
    memories: tuple[NewMemory, ...] = ()


_RARE = CommitTurn.__struct_fields__.index("rewind")
_NOTHING = astuple(CommitTurn(tenant="", session="", turn="", kind=""))[_RARE:]


def is_usual(command: CommitTurn) -> bool:
    """Whether a commit has nothing of what few have: one look in place of twenty."""
    return astuple(command)[_RARE:] == _NOTHING


class FindTurn(SessionCommand[TurnCommitted | None], frozen=True, kw_only=True):
    """What GetTurn answers, after every write of the session that is under way has ended.

    It writes nothing, but waits in line as a write does: its None stays true.
    """

    turn: str


class GetTurn(SessionQuery[TurnCommitted | None], frozen=True, kw_only=True):
    """The answer of an earlier commit."""

    turn: str


class ListTurns(SessionQuery[list[TurnInfo]], frozen=True, kw_only=True):
    """The commit history of a session, oldest first."""

    after_revision: int = 0
    limit: int = 500


class VerifySession(SessionQuery[Verified], frozen=True, kw_only=True):
    """Check chain, parents, leaf, positions, references and value hashes of one session."""


class VerifyStore(Query[Verified], frozen=True, kw_only=True):
    """Check what belongs to no session: rows of the tenant that outlive theirs.

    `whole`: also what belongs to no tenant, above all the file itself.
    """

    whole: bool = True
