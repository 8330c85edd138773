"""LedgerSession: the history of an agent, as the SDK asks for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import fields, replace
from inspect import isawaitable
from typing import Any, ParamSpec, TypeAlias, TypeVar

from agents import FunctionTool, RunState, SessionSettings
from agents.memory.session_settings import resolve_session_limit

from ledgerstone.adapters.openai_agents import states, unfinished_calls, usage
from ledgerstone.adapters.openai_agents.history import LIMIT_MAX, BranchHistory, Snapshot, settled
from ledgerstone.adapters.openai_agents.read_cache import ReadCache
from ledgerstone.adapters.openai_agents.tools import once
from ledgerstone.adapters.openai_agents_items import Item, by_message, kept
from ledgerstone.adapters.sync_async import AnyStore, StoreRunner, of
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks
from ledgerstone.records.executions import Execution
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Session
from ledgerstone.records.tickets import Ticket

ON_CLEAR = ("tombstone", "purge")
S = TypeVar("S", bound="LedgerSession")
T = TypeVar("T")
P = ParamSpec("P")
Compact: TypeAlias = Callable[[list[Item]], Awaitable[list[Item] | None] | list[Item] | None]


class LedgerSession:
    """One session of a store, or one branch of it; fits `session=` of every Runner method.

    `lease`: every write is fenced by it. `app` and `title` are for the session when it is made, and
    so is `user`: the first write also sets it on a session that has none, and every method raises
    InvalidValue when the session is another user's. `on_clear`: what `clear_session` does on main:
    "tombstone" hides the items, whose text goes with the next vacuum; "purge" removes the session
    with all that belongs to it.
    """

    def __init__(
        self,
        store: AnyStore,
        session_id: str,
        *,
        branch: str = "main",
        session_settings: SessionSettings | dict[str, Any] | None = None,
        on_clear: str = "tombstone",
        lease: AnyLease | None = None,
        user: str | None = None,
        app: str = "",
        title: str | None = None,
    ) -> None:
        self._runner = StoreRunner(store)
        self.session_id, lease = checks.bound(session_id, lease)
        self.session_settings: SessionSettings | None = _settings(session_settings)
        self._on_clear = checks.one_of(on_clear, ON_CLEAR, "on_clear")
        made = Session(
            id=self.session_id, tenant=store.tenant or "", user=user, app=app, title=title
        )
        self._history = BranchHistory(
            store, self.session_id, checks.branch_name(branch), lease, made
        )
        self._tracker = unfinished_calls.CallTracker()
        self._cache = ReadCache()
        self._is_owner = user is None

    @property
    def store(self) -> AnyStore:
        """Where it is kept; closing it is up to who opened it."""
        return self._history.store

    @property
    def branch_name(self) -> str:
        return self._history.branch

    async def get_items(self, limit: int | None = None, *, wrapper: object = None) -> list[Any]:
        """The newest `limit` items, oldest first; all when neither it nor the settings say one.

        Messages of other frameworks are among them, as items.
        """
        most = resolve_session_limit(limit, self.session_settings)
        if wrapper is not None:
            run = getattr(wrapper, "usage", None)
            usual = most == resolve_session_limit(None, self.session_settings)
            # A Runner asks for its history. When it looks back at what it wrote, it gives a limit;
            # so it may for the history, but then no model has answered yet.
            if usual or not getattr(run, "requests", 1):
                self._tracker.run_begins(run)
        if most is None or most < 0:
            return await self._read(self._cache.read, self._history)
        return await self._read(self._history.last, most)

    async def add_items(self, items: list[Any], *, wrapper: object = None) -> None:
        """Append them in one commit, all or none.

        InvalidValue names the item and the path in it that is not JSON. Otherwise as
        `messages.append`: LeaseHeld, Fenced, SessionDeleted, BranchNotFound.
        """
        messages = self._tracker.with_ids(kept(items))
        if messages:
            await self._write(self._add, messages)

    async def pop_item(self, *, wrapper: object = None) -> Any:
        """Take the newest item off and return it; None when there is none."""
        return await self._write(self._history.pop)

    async def clear_session(self, *, wrapper: object = None) -> None:
        """Start over, as `on_clear` says."""
        purge = self._on_clear == "purge" and self.branch_name == "main"
        await self._write(self._history.clear, purge=purge)

    def branch(self: S, name: str) -> S:
        """This session on another branch, without I/O; a branch that is not there is empty, and
        writing to it is BranchNotFound.
        """
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._history = replace(self._history, branch=checks.branch_name(name))
        # What is known about calls is shared: the tools may be wrapped by either.
        twin._tracker = replace(self._tracker, checked=False)
        twin._cache = ReadCache()
        return twin

    async def create_branch(self: S, name: str, *, items: int | None = None) -> S:
        """A new branch from here: with all items, or with the first `items` of them.

        A negative number leaves that many out at the end. AlreadyExists, SessionNotFound,
        InvalidValue for more than there are and for a cut through a message of several items.
        """
        await self._write(self._create_branch, name, items)
        return self.branch(name)

    async def branches(self) -> list[str]:
        """The names of the branches, main first; empty when there is no session yet."""
        return await self._read(_branches, self._history)

    async def record_usage(self, result: Any, *, model: str | None = None) -> None:
        """Keep what the model calls of a run used; calls that were kept before are not kept twice.

        A call is known by its response id; one without is kept each time. `model` names the model
        where the agents do not.
        """
        for entry in usage.entries(result, model):
            await self.keep_usage(entry)

    async def keep_usage(self, entry: usage.Entry) -> None:
        """Keep what one model call used; LedgerHooks does this for you."""
        await self._write(usage.record, self._history, entry)

    async def save_state(
        self,
        given: Any,
        *,
        expires_s: float | None = None,
        reason: str | None = None,
        **how: Any,
    ) -> list[Ticket]:
        """Keep where a run was interrupted, with a ticket for every call that needs approval.

        `given` is a result or a RunState; `how` goes to RunState.to_json (context_serializer,
        strict_context). Saving the same again changes nothing. A run that is not interrupted has
        nothing to keep: what was kept before is dropped, its open tickets are withdrawn.
        """
        if not isinstance(given, RunState) and not hasattr(given, "to_state"):
            raise InvalidValue("given", f"a result expected, got {type(given).__name__}")
        state = given if isinstance(given, RunState) else given.to_state()
        asked = states.questions(state, reason=reason, expires_s=expires_s)
        data = state.to_json(**how) if asked else None
        return await self._write(states.save, self._history, data, asked)

    async def load_state(
        self, agent: Any, *, rewind: bool = False, **how: Any
    ) -> RunState[Any, Any] | None:
        """The run that was saved, with what was decided on its tickets; None when there is none.

        Calls whose ticket is open stay interrupted. `how` goes to RunState.from_json. LeafMoved
        when the branch has moved since, as after a crash in the resumed run: `rewind` takes it
        back to where the state was saved, if that is still there. NotSupported for edited
        arguments of a tool that is not wrapped by `once`.
        """
        saved = await self._write(states.load, self._history, rewind=rewind)
        if saved is None:
            return None
        state = await RunState.from_json(agent, saved.state, **how)
        approved = states.decide(state, saved.tickets)
        # Last, so that a state which cannot be gone on with takes nothing away.
        await self._write(states.rewind, self._history, saved)
        self._tracker.resumed.update(states.called(saved.state))
        self._tracker.approved.update(approved)
        return state

    def once(self, tool: FunctionTool) -> FunctionTool:
        """The tool, with its calls written down before they are made; see docs/adapters.

        A call that has a result is answered with it and not made again. While a call that another
        process began, or that was cancelled, has no outcome, none is made: ExecutionUnresolved,
        until somebody decides with `store.executions.finish`; with an error it may be made again.
        Results that a dead process or a cancelled run left behind are a Conflict until `recover`
        was called.
        """
        return once(tool, self._history, self._runner, self._tracker)

    async def recover(self) -> list[Execution]:
        """After a crash, before the next run: tell the history what a dead process left behind.

        Results of tools wrapped by `once` that were not stored with their turn become items, in
        one commit; answers those calls. ExecutionUnresolved when nobody knows what came of one:
        decide with `store.executions.finish`, then call this again. Only for who knows that no
        other process works on the session, as the holder of its lease does.
        """
        return await self._write(unfinished_calls.recover, self._history, self._tracker)

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[Any], bool] | None = None
    ) -> Snapshot:
        """For OpenAIResponsesCompactionSession: the newest items, to be replaced at once."""
        leaf, found = await self._read(self._history.window, limit)
        shown = found[-limit:] if limit > 0 else []
        parts = by_message(found)[len(found) - len(shown) :]

        async def replace_suffix(start: int, output: list[Item]) -> bool:
            cut = _cut(parts, start)
            if cut is None:
                return False
            index, rest = cut
            earlier = found[: len(found) - len(shown) + index]
            after = earlier[-1].id if earlier else None
            messages = kept([*rest, *output])
            replaced = await self._write(self._history.replace_tail, after, messages, leaf)
            if replaced and prune_prefix is not None:
                await self._write(self._history.prune, after, prune_prefix)
            return replaced

        items = [item for part in parts for item in part]
        return Snapshot(items, len(found) == len(shown), replace_suffix)

    async def _atomic_replace_items(self, items: list[Any]) -> bool:
        """For OpenAIResponsesCompactionSession: the whole history in one commit."""
        await self._write(self._history.replace_all, kept(items))
        return True

    async def _read(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **more: P.kwargs
    ) -> T:
        return await self._runner.run_async(self._owned(False, work, *args, **more))

    async def _write(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **more: P.kwargs
    ) -> T:
        return await settled(self._runner.run_async(self._owned(True, work, *args, **more)))

    async def _owned(
        self,
        writes: bool,
        work: Callable[P, Coroutine[Any, Any, T]],
        *args: P.args,
        **more: P.kwargs,
    ) -> T:
        """Do the work unless the session is another user's."""
        if not self._is_owner:
            self._is_owner = await self._history.is_owner(writes=writes)
        return await work(*args, **more)

    async def _add(self, messages: list[Message]) -> None:
        await self._history.add(messages)
        # Here, since the caller may have been cancelled meanwhile.
        self._tracker.forget_stored(messages)

    async def _create_branch(self, name: str, items: int | None) -> None:
        history = self._history
        target = await history.tip() if items is None else await _after(history, items)
        create = history.store.branches.create
        await of(create(history.session, name, at=target, lease=history.lease))


class CompactingLedgerSession(LedgerSession):
    """A LedgerSession with a summariser of your own, of any model.

    `compact(items)` is asked after a run's answer was stored, unless a call waits for its result.
    It returns the items that shall stand for the history from then on, or None to leave it. To
    have OpenAI do it, wrap a plain LedgerSession in the SDK's OpenAIResponsesCompactionSession
    instead.
    """

    def __init__(
        self, store: AnyStore, session_id: str, *, compact: Compact, **options: Any
    ) -> None:
        super().__init__(store, session_id, **options)
        self._compact = compact

    async def run_compaction(self, args: Any = None, *, wrapper: object = None) -> None:
        """Ask for shorter items and put them in place; what was written meanwhile wins."""
        snapshot = await self._get_compaction_snapshot(LIMIT_MAX)
        if not snapshot.items or _waits(snapshot.items):
            return
        answer = self._compact([dict(item) for item in snapshot.items])
        shorter = await answer if isawaitable(answer) else answer
        if shorter is not None:
            await snapshot.replace_suffix(0, shorter)


async def _branches(history: BranchHistory) -> list[str]:
    return [one.name for one in await of(history.store.branches.list(history.session))]


async def _after(history: BranchHistory, count: int) -> str | None:
    """The message that the first `count` items end with."""
    found = await history.messages()
    ends: dict[int, str | None] = {0: None}
    total = 0
    for message, items in zip(found, by_message(found), strict=True):
        total += len(items)
        ends[total] = message.id
    wanted = count if count >= 0 else total + count
    if not 0 <= wanted <= total:
        raise InvalidValue("items", f"{count} of {total}")
    if wanted not in ends:
        raise InvalidValue("items", f"item {wanted} is in the middle of a message")
    return ends[wanted]


def _cut(parts: list[list[Item]], start: int) -> tuple[int, list[Item]] | None:
    """The message that item `start` is in, and the items before it in there; None if none is."""
    if start < 0:
        return None
    for index, part in enumerate(parts):
        if start < len(part):
            return index, part[:start]
        start -= len(part)
    return None


def _settings(given: object) -> SessionSettings:
    """Return the settings; InvalidValue names what SessionSettings itself would ignore."""
    if given is None or isinstance(given, SessionSettings):
        return given or SessionSettings()
    if not isinstance(given, dict):
        kind = type(given).__name__
        raise InvalidValue("session_settings", f"SessionSettings or a dict expected, got {kind}")
    known = [one.name for one in fields(SessionSettings)]
    for name in given:
        if name not in known:
            reason = f"unknown setting {name!r:.40}; known are {', '.join(known)}"
            raise InvalidValue("session_settings", reason)
    try:
        return SessionSettings(**given)
    except ValueError as error:
        raise InvalidValue("session_settings", str(error)) from None


def _waits(items: list[Item]) -> bool:
    """Whether a call since the last input has no result yet, as when somebody is asked about it.

    Its result will be told, and means nothing without the call.
    """
    told: set[object] = {None}
    for item in reversed(items):
        kind = str(item.get("type"))
        if item.get("role") == "user":
            break
        if kind.endswith(("_output", "_response")):
            told.update((item.get("call_id"), item.get("approval_request_id")))
        elif item.get("id" if kind == "mcp_approval_request" else "call_id") not in told:
            return True
    return False
