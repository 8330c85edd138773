"""The steps of runs in a ledger: runs, events, snapshots and the fate of tool calls.

A run belongs to the session of its conversation, or to one of its own. Events are notes beside a
node of the run, snapshots are nodes that name the tip of a path of messages, and tool calls are
executions, so that `executions.unresolved` and `sessions.recovery` know of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    RunRecord,
    StepEvent,
    ToolEffectRecord,
)

from ledgerstone import ids
from ledgerstone.adapters.pydantic_ai import step_records
from ledgerstone.adapters.pydantic_ai.sessions import APP, Cache
from ledgerstone.adapters.pydantic_ai.snapshots import Snapshots
from ledgerstone.adapters.pydantic_ai.step_records import ENDS, EVENT, RUN, event_order
from ledgerstone.adapters.sync_async import AnyStore, StoreRunner, each, of, runs_async
from ledgerstone.errors import IncarnationMoved, InvalidValue, SessionNotFound
from ledgerstone.records.nodes import Node
from ledgerstone.records.runs import Run
from ledgerstone.records.sessions import Session

RUNS_KEPT = 256


class LedgerStepStore:
    """A StepStore: StepPersistence(store=LedgerStepStore(store)).

    The messages of complete snapshots become the conversation, as long as they continue what
    stands on `branch`; with branch=None they only hang beside it. Sessions that it makes belong to
    `user`, the scope of a LedgerSavedConversations. `max_snapshots_per_run` as of the stores of the
    harness: the newest and the newest complete one always stay.
    """

    def __init__(
        self,
        store: AnyStore,
        *,
        branch: str | None = "main",
        user: str | None = None,
        max_snapshots_per_run: int | None = None,
    ) -> None:
        self._runner = StoreRunner(store)
        self._store = store
        self._user = None if user is None else ids.check_id(user, "user")
        self._snapshots = Snapshots(store, branch, max_snapshots_per_run)
        self._sessions = Cache[str, str](RUNS_KEPT)

    @runs_async
    async def register_run(self, record: RunRecord) -> None:
        """Write the run down; again, it is overwritten. A run stays in its conversation."""
        session = await self._ensured_session(record.run_id, record.conversation_id)
        wanted = session if record.conversation_id is None else record.conversation_id
        if wanted != session:
            raise InvalidValue(
                "conversation_id", f"run {record.run_id!r} belongs to session {session!r} already"
            )
        known = await of(self._store.runs.get(record.run_id))
        await of(self._store.runs.put(step_records.run_of(record, session, known)))

    @runs_async
    async def get_run(self, *, run_id: str) -> RunRecord | None:
        found = await of(self._store.runs.get(run_id))
        if found is None or not step_records.is_ours(found):
            return None
        return step_records.record_of(found)

    @runs_async
    async def list_runs(
        self, *, parent_run_id: str | None = None, conversation_id: str | None = None
    ) -> list[RunRecord]:
        """Those that fit, in the order they started."""
        found = []
        where = self._store.runs.iter(session=conversation_id, parent_run=parent_run_id)
        async for run in each(where):
            if not step_records.is_ours(run):
                continue
            record = step_records.record_of(run)
            if conversation_id is None or record.conversation_id == conversation_id:
                found.append(record)
        return sorted(found, key=lambda record: record.started_at)

    @runs_async
    async def append_event(self, event: StepEvent) -> None:
        """Add an event; one with an idempotency key that is there already changes nothing."""
        once = event.idempotency_key
        key = EVENT + (ids.new_id() if once is None else ids.derive(once))
        note = {key: {**step_records.dump_event(event), "order": event_order()}}

        async def write(session: str) -> None:
            await of(self._store.nodes.annotate(session, anchor(event.run_id), note))
            if event.kind in ENDS:
                await of(self._store.runs.update(event.run_id, **step_records.end_of(event)))

        await self._in_session(event.run_id, event.conversation_id, write)

    @runs_async
    async def list_events(self, *, run_id: str) -> list[StepEvent]:
        """All events of a run, in the order they were added."""
        session = await self._session_of(run_id)
        if session is None:
            return []
        node = anchor(run_id)
        found = await of(self._store.nodes.notes(session, [node], prefix=EVENT))
        bodies = [note.body for note in found.get(node, {}).values()]
        bodies.sort(key=lambda body: int(body["order"]))
        return [step_records.read_event(body) for body in bodies]

    @runs_async
    async def save_snapshot(self, snapshot: ContinuableSnapshot) -> None:
        """Keep a point to go on from, in one commit; repeated saves are known by their key."""
        write = partial(self._snapshots.save, snapshot=snapshot)
        await self._in_session(snapshot.run_id, snapshot.conversation_id, write)

    @runs_async
    async def latest_snapshot(
        self, *, run_id: str, include_interrupted: bool = False
    ) -> ContinuableSnapshot | None:
        """The newest complete one; the newest of all with `include_interrupted`."""
        found = await self._kept(run_id, include_interrupted, 1)
        return found[-1] if found else None

    @runs_async
    async def list_snapshots(
        self, *, run_id: str, include_interrupted: bool = False
    ) -> list[ContinuableSnapshot]:
        """What is kept of a run, in the order it was saved."""
        return await self._kept(run_id, include_interrupted, None)

    @runs_async
    async def record_tool_effect(self, record: ToolEffectRecord) -> None:
        """Write down what became of a tool call; the last record of a call counts."""
        write = partial(step_records.record_effect, self._store, told=record)
        await self._in_session(record.run_id, None, write)

    @runs_async
    async def get_tool_effect(self, *, run_id: str, tool_call_id: str) -> ToolEffectRecord | None:
        session = await self._session_of(run_id)
        if session is None:
            return None
        return await step_records.effect_of_call(self._store, session, run_id, tool_call_id)

    @runs_async
    async def list_unresolved_tool_effects(self, *, run_id: str) -> list[ToolEffectRecord]:
        """Calls that began and did not end: after a crash nobody knows what they did."""
        found = await step_records.effects_of_run(self._store, ids.check_id(run_id, "run_id"))
        return [one for one in found if one.status == "started"]

    async def _kept(
        self, run_id: str, interrupted: bool, limit: int | None
    ) -> list[ContinuableSnapshot]:
        session = await self._session_of(run_id)
        if session is None:
            return []
        return await self._snapshots.read(session, run_id, interrupted=interrupted, limit=limit)

    async def _in_session(
        self, run_id: str, conversation: str | None, write: Callable[[str], Awaitable[None]]
    ) -> None:
        """Write to the session of a run; once more if it was purged since it was looked up."""
        try:
            await write(await self._ensured_session(run_id, conversation))
        except (SessionNotFound, IncarnationMoved):
            self._sessions.drop(run_id)
            await write(await self._ensured_session(run_id, conversation))

    async def _session_of(self, run_id: str) -> str | None:
        """The session of a run; None when nothing of it is stored."""
        return await self._locate(run_id, None, create=False)

    async def _ensured_session(self, run_id: str, conversation: str | None) -> str:
        """The session of a run, with its node in it."""
        found = await self._locate(run_id, conversation, create=True)
        assert found is not None
        return found

    async def _locate(self, run_id: str, conversation: str | None, *, create: bool) -> str | None:
        ids.check_id(run_id, "run_id")
        known = self._sessions.get(run_id)
        if known is not None:
            return known
        found = await of(self._store.runs.get(run_id))
        if found is not None:
            session = found.session
        elif conversation is not None:
            session = ids.check_id(conversation, "conversation_id")
        else:
            session = own_session(run_id)
        node = await of(self._store.nodes.get(session, anchor(run_id)))
        if node is None and not create:
            return None
        if node is None or found is None:
            await self._begin(session, run_id)
        self._sessions.put(run_id, session)
        return session

    async def _begin(self, session: str, run_id: str) -> None:
        made = Session(id=session, tenant=self._store.tenant or "", app=APP, user=self._user)
        node = Node(id=anchor(run_id), kind=RUN, body={"run": run_id}, parent=None, run_id=run_id)
        await of(self._store.nodes.append(session, node, on_path=False, create=made))
        if await of(self._store.runs.get(run_id)) is None:
            # Found again by its id alone, also when nobody registers it.
            await of(self._store.runs.put(Run(id=run_id, session=session)))


def anchor(run_id: str) -> str:
    """The node that the notes of a run are beside."""
    return ids.derive("pydantic-ai", "run", run_id)


def own_session(run_id: str) -> str:
    """The session of a run that has no conversation."""
    name = f"run-{run_id}"
    return name if len(name) <= ids.ID_CHARS_MAX else ids.derive("run", run_id)
