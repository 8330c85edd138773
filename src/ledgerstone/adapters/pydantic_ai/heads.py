"""Where the conversations of pydantic-ai stand, and the one commit that moves them.

A conversation is a session; its messages are the path of a branch. What pydantic-ai knows beyond
messages lies in the session's state, and is written by the commit that writes the messages:

    {"heads": {branch: {"n": revision, "leaf": node, "usage": .., "deferred": ..}}, "summary": {..}}

A writer may say any list if nothing happened since it read; whoever else wrote to the session is
noticed by the leaf. What another framework added is no conflict for a writer whose list has it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from pydantic_ai.conversation import Conversation
from pydantic_ai_harness.step_persistence.conversations import ConversationConflict

from ledgerstone import ids
from ledgerstone.adapters.faces import AnyStore, of
from ledgerstone.adapters.pydantic_ai import chains
from ledgerstone.adapters.pydantic_ai.binary import Native
from ledgerstone.adapters.pydantic_ai.chains import Chain
from ledgerstone.codec import decode_json
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.commands.sessions import GetDocument, GetHead, GetSession
from ledgerstone.errors import RevisionMoved, SessionDeleted
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Head, Session

APP = "pydantic-ai"
STATE = "pydantic-ai"
STEPS = "pydantic-ai.steps"
REWRITE = "pydantic-ai.rewrite"
TRIES = 10
CHAINS_KEPT = 64

Change = Callable[["Place"], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class StoredConversation:
    """A conversation as it was read: its revision is what the next write expects."""

    conversation: Conversation
    revision: str
    head: str | None
    branch: str = "main"


@dataclass(frozen=True)
class Place:
    """One reading of a session; `session` is None when there is none to be seen."""

    session: Session | None
    head: Head | None
    state: dict[str, Any]
    path: Sequence[Message]
    branch: str = "main"
    hidden: bool = False
    """Whether there is one, deleted or out of scope: its id is not free."""

    @property
    def known(self) -> dict[str, Any]:
        """What was kept for the branch."""
        found: dict[str, Any] = self.state.get(STATE, {}).get("heads", {}).get(self.branch, {})
        return found

    @property
    def number(self) -> int:
        """How often the branch was written by this adapter."""
        return int(self.known.get("n", 0))

    @property
    def incarnation(self) -> int:
        return 1 if self.session is None else self.session.incarnation

    @property
    def revision(self) -> str:
        """Another one after delete and create, since the incarnation is in it."""
        return f"{self.incarnation}.{self.number}"

    @property
    def leaf(self) -> str | None:
        if self.head is None or self.branch == "main":
            return None if self.head is None else self.head.leaf
        return next((one.leaf for one in self.head.branches if one.name == self.branch), None)

    @property
    def untouched(self) -> bool:
        """Whether nobody but this adapter moved the branch since it was written."""
        if self.leaf == self.known.get("leaf"):
            return True
        steps = self.state.get(STEPS) or {}
        came_from_here = steps.get("from") == self.known.get("leaf")
        return self.branch == "main" and came_from_here and steps.get("leaf") == self.leaf


class Heads:
    """Reads and moves conversations of one store, seen by one scope or by everybody."""

    def __init__(self, store: AnyStore, scope: str | None) -> None:
        self.store = store
        self.scope = scope
        self._chains: OrderedDict[tuple[str, str], tuple[str, Chain]] = OrderedDict()

    async def look(self, id: str, branch: str = "main", *, messages: bool = False) -> Place:
        """One reading; without messages unless asked for. A session out of scope is not there."""
        tenant, session = self.store.tenant or "", ids.check_id(id, "conversation_id")
        queries: list[Any] = [
            GetSession(tenant=tenant, id=session),
            GetHead(tenant=tenant, id=session),
            GetDocument(tenant=tenant, session=session, name="state"),
        ]
        if messages:
            queries.append(ReadMessages(tenant=tenant, session=session, branch=branch))
        found, head, state, *path = await of(self.store.read(*queries))
        if found is None or found.deleted_us is not None or not self.sees(found):
            return Place(None, None, {}, (), branch, hidden=found is not None)
        said = {} if state is None else decode_json(state)
        return Place(found, head, said, path[0] if messages else (), branch)

    def sees(self, session: Session) -> bool:
        return self.scope is None or session.user == self.scope

    async def show(self, place: Place) -> list[Any]:
        """The messages of a reading; what they are is remembered for the write that follows."""
        messages, chain = await chains.show(self.store, place.path)
        self._remember(place, chain)
        return messages

    async def write(
        self,
        id: str,
        natives: list[Native],
        change: Change,
        *,
        branch: str = "main",
        made: Session,
    ) -> Place:
        """Make the branch exactly this list and merge what `change` says, in one commit.

        `change` sees the place as it is and refuses by ConversationConflict. Answers the place
        afterwards.
        """
        digests = [chains.digest(one) for one in natives]
        for _ in range(TRIES):
            place = await self.look(id, branch)
            said = change(place)
            if place.hidden:
                raise ConversationConflict(f"Conversation {id!r} is not to be had.")
            chain = await self._chain(place)
            kept, tip = chain.common(digests)
            if kept < len(chain.links):
                chain = await self._chain(place, anew=True)
                kept, tip = chain.common(digests)
            if not place.untouched and kept < len(chain.links):
                raise ConversationConflict(
                    f"Conversation {id!r} has messages that this writer has not seen. Reload it."
                )
            try:
                return await self._commit(place, made, said, natives, digests, chain, kept, tip)
            except RevisionMoved:
                continue
            except SessionDeleted:
                raise ConversationConflict(f"Conversation {id!r} was deleted.") from None
        raise ConversationConflict(f"Conversation {id!r} is being written by others all the time.")

    async def patch(self, id: str, change: Change) -> Place | None:
        """Merge what `change` says, with no message and no new revision; None when it is gone."""
        for _ in range(TRIES):
            place = await self.look(id)
            if place.session is None:
                return None
            said = change(place)
            if not said:
                return place
            turn = self.store.turns.begin(id, expected_revision=_revision(place))
            turn.state(**{STATE: said})
            try:
                await of(turn.commit())
            except RevisionMoved:
                continue
            return Place(place.session, place.head, {**place.state, STATE: said}, ())
        raise ConversationConflict(f"Conversation {id!r} is being written by others all the time.")

    async def _commit(
        self,
        place: Place,
        made: Session,
        said: dict[str, Any],
        natives: list[Native],
        digests: list[bytes],
        chain: Chain,
        kept: int,
        tip: str | None,
    ) -> Place:
        turn = self.store.turns.begin(
            made.id,
            branch=place.branch,
            expected_revision=_revision(place),
            create=made if place.session is None else False,
        )
        leaf = place.leaf
        if kept < len(chain.links):
            leaf = turn.node(REWRITE, {"kept": kept}, parent=tip).id
        names = ids.new_ids(len(natives) - kept)
        # A copy, since keeping changes it and the commit may have to be made again.
        fresh = await chains.keep(self.store, deepcopy(natives[kept:]), names)
        turn.add(*fresh)
        # Told again after a rewrite, an answer was still paid for once.
        known = {link.digest for link in chain.links}
        new = [
            one for one, digest in zip(fresh, digests[kept:], strict=True) if digest not in known
        ]
        chains.count(turn, new)
        leaf = fresh[-1].id if fresh else leaf
        heads = dict(said.get("heads", {}))
        heads[place.branch] = {**heads.get(place.branch, {}), "n": place.number + 1, "leaf": leaf}
        state = {**place.state, STATE: {**said, "heads": heads}}
        turn.state(**{STATE: state[STATE], STEPS: None})
        answer = await of(turn.commit())
        session = place.session or await of(self.store.sessions.get(made.id)) or made
        done = Place(session, Head(revision=answer.revision), state, (), place.branch)
        self._remember(done, chain.grown(kept, digests[kept:], names))
        return done

    async def _chain(self, place: Place, *, anew: bool = False) -> Chain:
        """What stands on the branch, from memory if that is still so."""
        if place.session is None:
            return Chain()
        key = (place.session.id, place.branch)
        tag, chain = self._chains.get(key, ("", Chain()))
        if tag == _tag(place) and not anew:
            return chain
        full = await self.look(place.session.id, place.branch, messages=True)
        return (await chains.show(self.store, full.path, anew=anew))[1]

    def _remember(self, place: Place, chain: Chain) -> None:
        if place.session is None:
            return
        key = (place.session.id, place.branch)
        self._chains[key] = (_tag(place), chain)
        self._chains.move_to_end(key)
        if len(self._chains) > CHAINS_KEPT:
            self._chains.popitem(last=False)


def _revision(place: Place) -> int:
    return 0 if place.head is None else place.head.revision


def _tag(place: Place) -> str:
    """What a remembered chain is good for: the session as it stood after one commit."""
    return f"{place.incarnation}/{_revision(place)}"
