"""Where the conversations of pydantic-ai stand, and the one commit that moves them.

A conversation is a session; its messages are the path of a branch. What pydantic-ai knows beyond
messages lies in the session's state, and is written by the commit that writes the messages:

    {"session": id, "summary": {..},
     "heads": {branch: {"n": number, "leaf": node, "at": commit, "usage": .., "deferred": ..}}}

A fork gets its source's state with its nodes. The name in it says so, and what the fork knows of
itself is made of it, by whoever reads it first: see `fresh_copy`.

A writer may say any list if nothing happened since it read; whoever else wrote to the session is
noticed by the leaf, and their commits are counted in the number that a reader is given. What
another framework added since is no conflict for a writer whose list has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pydantic_ai.conversation import Conversation
from pydantic_ai_harness.step_persistence.conversations import ConversationConflict

from ledgerstone import ids
from ledgerstone.adapters.native_bytes import Native
from ledgerstone.adapters.pydantic_ai import chains
from ledgerstone.adapters.pydantic_ai.chains import Chain
from ledgerstone.adapters.pydantic_ai.sessions import STEPS, Cache, SessionReading, read_session
from ledgerstone.adapters.sync_async import AnyStore, of
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.errors import RevisionMoved, SessionDeleted, SessionNotFound
from ledgerstone.records.messages import Message
from ledgerstone.records.nodes import Branch
from ledgerstone.records.sessions import Head, Session

STATE = "pydantic-ai"
REWRITE = "pydantic-ai.rewrite"
TRIES = 10
CHAINS_KEPT = 64

Change = Callable[["BranchState"], dict[str, Any]]


class ReadRevision(NamedTuple):
    """What a writer has read: which life of a session, and which writing of a branch of it."""

    incarnation: int
    number: int


@dataclass(frozen=True, kw_only=True)
class StoredConversation:
    """A conversation as it was read: its revision is what the next write expects."""

    conversation: Conversation
    revision: str
    head: str | None
    branch: str = "main"


@dataclass(frozen=True)
class BranchState(SessionReading):
    """A reading of a session, seen from one of its branches."""

    path: Sequence[Message] = ()
    branch: str = "main"

    @property
    def saved(self) -> dict[str, Any]:
        """What these adapters keep in the session's state."""
        found: dict[str, Any] = self.state.get(STATE, {})
        return found

    @property
    def known(self) -> dict[str, Any]:
        """What was kept for the branch."""
        found: dict[str, Any] = self.saved.get("heads", {}).get(self.branch, {})
        return found

    @property
    def inherited(self) -> dict[str, Any]:
        """What was kept for a branch that was written up to here: a new one begins with it."""
        heads: dict[str, dict[str, Any]] = self.saved.get("heads", {})
        return next((one for one in heads.values() if one.get("leaf") == self.leaf), {})

    @property
    def last_written(self) -> int:
        """The number that the last write of this adapter gave to the branch."""
        return int(self.known.get("n", 0))

    @property
    def number(self) -> int:
        """Which writing of the branch this is; those of others count from the last of ours."""
        if self.is_unchanged:
            return self.last_written
        return self.last_written + max(1, self.commits - int(self.known.get("at", 0)))

    @property
    def incarnation(self) -> int:
        return 1 if self.session is None else self.session.incarnation

    @property
    def revision(self) -> str:
        """Includes the incarnation, so it differs after delete and create."""
        return f"{self.incarnation}.{self.number}"

    def allows(self, seen: ReadRevision | None) -> bool:
        """Whether a writer who has seen that may write; None expects that there is nothing.

        Whoever missed what others wrote may still go on from it, so that is looked at later.
        """
        if self.session is None or seen is None:
            return seen is None and (self.session is None or (not self.known and self.is_unchanged))
        return (
            seen.incarnation == self.incarnation and self.last_written <= seen.number <= self.number
        )

    @property
    def leaf(self) -> str | None:
        if self.head is None or self.branch == "main":
            return None if self.head is None else self.head.leaf
        return next((one.leaf for one in self.head.branches if one.name == self.branch), None)

    @property
    def is_unchanged(self) -> bool:
        """Whether nobody but this adapter moved the branch since it was written."""
        steps = self.steps
        if self.branch == "main" and steps and steps["leaf"] == self.leaf:
            return bool(steps["from"] == self.known.get("leaf"))
        return bool(self.leaf == self.known.get("leaf"))

    @property
    def is_copy(self) -> bool:
        """Whether what was kept is what another session knew of itself."""
        if self.session is None:
            return False
        return bool(self.saved.get("session", self.session.id) != self.session.id)


class Heads:
    """Reads and moves conversations of one store, seen by one scope or by everybody."""

    def __init__(self, store: AnyStore, scope: str | None) -> None:
        self.store = store
        self.scope = scope
        self._chains = Cache[tuple[str, str], tuple[str, Chain]](CHAINS_KEPT)

    async def look(
        self, id: str, branch: str = "main", *, messages: bool = False, deleted: bool = False
    ) -> BranchState:
        """One reading; without messages unless asked for. A session out of scope is not there."""
        queries = []
        if messages:
            tenant = self.store.tenant or ""
            queries.append(ReadMessages(tenant=tenant, session=id, branch=branch, deleted=deleted))
        found, paths = await read_session(self.store, id, *queries)
        if found.session is None or not self.sees(found.session):
            hidden = found.hidden or found.session is not None
            return BranchState(None, hidden=hidden, branch=branch)
        path = paths[0] if messages else ()
        current = BranchState(found.session, found.head, found.state, path=path, branch=branch)
        return fresh_copy(current, await self._carried(current)) if current.is_copy else current

    def sees(self, session: Session) -> bool:
        return self.scope is None or session.user == self.scope

    async def show(self, current: BranchState) -> list[Any]:
        """The messages of a reading; what they are is remembered for the write that follows."""
        messages, chain = await chains.show(self.store, current.path)
        if chains.is_whole(current.path, current.leaf):
            self._remember(current, chain._replace(gone=frozenset()))
        return messages

    async def write(
        self,
        id: str,
        natives: list[Native],
        change: Change,
        *,
        seen: ReadRevision | None,
        branch: str = "main",
        made: Session,
    ) -> BranchState:
        """Make the branch exactly this list and merge what `change` says, in one commit.

        ConversationConflict when the writer has not seen what is there. Returns the state
        afterwards.
        """
        digests = [chains.digest(one) for one in natives]
        for _ in range(TRIES):
            current = await self.look(id, branch)
            if current.hidden:
                raise ConversationConflict(f"Conversation {id!r} was deleted or is another user's.")
            if not current.allows(seen):
                raise ConversationConflict(conflict_text(id, current))
            chain = await self._chain(current)
            kept, tip = chain.common(digests)
            if kept < len(chain.links):
                chain = await self._chain(current, anew=True)
                kept, tip = chain.common(digests)
            if seen is not None and seen.number != current.number and kept < len(chain.links):
                raise ConversationConflict(
                    f"Conversation {id!r} has messages that this writer has not seen. Reload it."
                )
            if chain.gone and not chain.gone.isdisjoint(digests):
                raise ConversationConflict(
                    f"Messages of conversation {id!r} were deleted or changed. Reload it."
                )
            said = change(current)
            try:
                return await self._commit(current, made, said, natives, digests, chain, kept, tip)
            except (RevisionMoved, SessionNotFound):
                continue
            except SessionDeleted:
                raise ConversationConflict(f"Conversation {id!r} was deleted.") from None
        raise ConversationConflict(f"Conversation {id!r} kept changing; {TRIES} attempts failed.")

    async def patch(self, id: str, change: Change) -> BranchState | None:
        """Merge what `change` says, with no message and no new revision; None when it is gone."""
        for _ in range(TRIES):
            current = await self.look(id)
            if current.session is None:
                return None
            said = change(current)
            if not said:
                return current
            turn = self.store.turns.begin(
                id, expected_revision=current.commits, expected_incarnation=current.incarnation
            )
            changed = {STATE: {**said, "session": id}}
            # Of a copy, the steps of its source are still to be taken away.
            turn.state(**changed, **({} if STEPS in current.state else {STEPS: None}))
            try:
                await of(turn.commit())
            except (RevisionMoved, SessionNotFound):
                continue
            return BranchState(current.session, current.head, {**current.state, **changed})
        raise ConversationConflict(f"Conversation {id!r} kept changing; {TRIES} attempts failed.")

    async def _commit(
        self,
        current: BranchState,
        made: Session,
        said: dict[str, Any],
        natives: list[Native],
        digests: list[bytes],
        chain: Chain,
        kept: int,
        tip: str | None,
    ) -> BranchState:
        turn = self.store.turns.begin(
            made.id,
            branch=current.branch,
            expected_revision=current.commits,
            expected_incarnation=0 if current.session is None else current.incarnation,
            create=made if current.session is None else False,
        )
        turn.warns = False
        leaf = current.leaf
        if kept < len(chain.links):
            leaf = turn.node(REWRITE, {"kept": kept}, parent=tip).id
        names = ids.new_ids(len(natives) - kept)
        fresh = await chains.keep(self.store, natives[kept:], names, first=kept)
        turn.add(*fresh)
        # Told again after a rewrite, an answer was still paid for once.
        known = {link.digest for link in chain.links}
        new = [
            one for one, digest in zip(fresh, digests[kept:], strict=True) if digest not in known
        ]
        chains.count(turn, new)
        leaf = fresh[-1].id if fresh else leaf
        heads = dict(said.get("heads", {}))
        mark = {"n": current.number + 1, "leaf": leaf, "at": current.commits + 1}
        heads[current.branch] = {**heads.get(current.branch, {}), **mark}
        changed: dict[str, Any] = {STATE: {**said, "session": made.id, "heads": heads}}
        if current.branch == "main":
            changed[STEPS] = None
        turn.state(**changed)
        answer = await of(turn.commit())
        session = current.session or await of(self.store.sessions.get(made.id)) or made
        head = Head(
            revision=answer.revision, leaf=leaf, branches=[Branch(name=current.branch, leaf=leaf)]
        )
        done = BranchState(session, head, {**current.state, **changed}, branch=current.branch)
        self._remember(done, chain.grown(kept, digests[kept:], names))
        return done

    async def _carried(self, copy: BranchState) -> dict[str, Any]:
        """What was kept where a copy ends, or where main ended if that is on its path."""
        assert copy.session is not None
        main = replace(copy, branch="main")
        kept, end = main.inherited, main.known.get("leaf")
        if not kept and end is not None:
            node = await of(self.store.nodes.get(copy.session.id, end))
            kept = {} if node is None else main.known
        return {name: kept[name] for name in ("usage", "deferred") if name in kept}

    async def _chain(self, current: BranchState, *, anew: bool = False) -> Chain:
        """The chain of the branch; from the cache while nobody has written to the session."""
        if current.session is None:
            return Chain()
        tag, chain = self._chains.get((current.session.id, current.branch)) or ("", Chain())
        if tag == _tag(current) and not anew:
            return chain
        full = await self.look(current.session.id, current.branch, messages=True, deleted=True)
        return await chains.current_chain(self.store, full.path, anew=anew)

    def _remember(self, current: BranchState, chain: Chain) -> None:
        if current.session is not None:
            self._chains.put((current.session.id, current.branch), (_tag(current), chain))


def fresh_copy(copy: BranchState, carried: dict[str, Any]) -> BranchState:
    """A copy with what it knows of itself at its beginning, and revisions of its own."""
    assert copy.session is not None
    assert copy.head is not None
    # If others wrote since, nobody knows where it began, and their commits are counted.
    leaf = copy.head.leaf if copy.commits == 1 else ""
    source, ends = copy.state[STATE], {one.name: one.leaf for one in copy.head.branches}
    heads = {
        name: {**one, "at": 1}
        for name, one in source.get("heads", {}).items()
        if name in ends and ends[name] == one["leaf"]
    }
    heads["main"] = {"n": 1, "leaf": leaf, "at": 1, **carried}
    said: dict[str, Any] = {"session": copy.session.id, "heads": heads}
    if "summary" in source:
        # A name is of a revision, and a process runs the source.
        summary = {**source["summary"], "named_revision": 0}
        if summary["outcome"] == "running":
            summary |= {"outcome": "ready", "run_id": None, "owner_pid": None}
        said["summary"] = summary
    rest = {name: one for name, one in copy.state.items() if name != STEPS}
    return replace(copy, state={**rest, STATE: said})


def conflict_text(id: str, there: BranchState) -> str:
    """The message for a writer who is not up to date."""
    if there.session is None:
        return f"Conversation {id!r} is not there (any more)."
    at = there.revision
    return f"Conversation {id!r} was changed by another writer; it is at {at}. Reload it."


def _tag(current: BranchState) -> str:
    """The commit after which a cached chain is valid."""
    return f"{current.incarnation}/{current.commits}"
