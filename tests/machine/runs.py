"""Random runs: records with parts and parents, changes of them, lists and trees."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ledgerstone.commands import Query
from ledgerstone.commands.runs import GetRun, GetRunTree, ListRuns, RunFilter, UpdateRun
from ledgerstone.records.runs import (
    RUN_STATUSES,
    Outcome,
    Run,
    RunInput,
    RunOutput,
    RunRequest,
    SeqRange,
    Termination,
    Waiting,
    WaitingTicket,
)
from tests.machine import draws

PARENTS = (None, None, None, *draws.RUNS, "nowhere")
TICKET = WaitingTicket(id="k1", call_id="c1", tool="pay", arguments={"eur": 1}, updated_us=5)
ENDED = Outcome(termination=Termination(type="stopped", value={"code": "x"}), final_output="\ud800")

parents = st.sampled_from(PARENTS)
inputs = st.sampled_from(
    (
        None,
        None,
        RunInput(data={"b": 1, "a": None}),
        RunInput(session="s1", range=SeqRange(1, 2), triggers=["n1"], data="\x00"),
    )
)
outputs = st.sampled_from((None, None, RunOutput(), RunOutput(messages=["n2"], data=2**64)))
waitings = st.sampled_from((None, None, Waiting(reason="user_input", tickets=[TICKET])))
requests = st.sampled_from((None, None, RunRequest(origin="a2a", extras={"z": 1})))


@st.composite
def records(draw: st.DrawFn, session: str) -> Run:
    return Run(
        id=draw(draws.runs),
        session=session,
        parent_run=draw(parents),
        status=draw(draws.run_statuses),
        request=draw(requests),
        input=draw(inputs),
        output=draw(outputs),
        waiting=draw(waitings),
        created_us=draw(st.sampled_from((0, 0, 0, draws.START_US - 5))),
        started_us=draw(st.sampled_from((None, None, draws.START_US))),
    )


@st.composite
def updates(draw: st.DrawFn) -> UpdateRun:
    """Some fields, now and then one that nobody can change."""
    pool: dict[str, Any] = {
        "status": draw(st.sampled_from((*RUN_STATUSES, "done"))),
        "parent_run": draw(parents),
        "output": draw(outputs),
        "waiting": draw(waitings),
        "outcome": ENDED,
        "steps": draw(st.integers(0, 3)),
        "created_us": 5,
    }
    names = draw(draws.once(st.sampled_from((*list(pool)[:-1], *list(pool))), 3))
    changes = {name: pool[name] for name in names}
    return UpdateRun(tenant=draw(draws.tenants), id=draw(draws.runs), changes=changes)


@st.composite
def questions(draw: st.DrawFn) -> Query[Any]:
    common: dict[str, Any] = {"tenant": draw(draws.tenants)}
    where = RunFilter(
        session=draw(st.one_of(st.none(), draws.sessions)),
        status=draw(st.one_of(st.none(), draws.run_statuses)),
        parent_run=draw(parents),
    )
    after = st.tuples(st.sampled_from((0, draws.START_US - 5, draws.START_US + 1)), draws.runs)
    listed = ListRuns(
        where=draw(st.sampled_from((RunFilter(), where))),
        limit=draw(draws.limits),
        offset=draw(st.integers(0, 2)),
        after=draw(st.one_of(st.none(), after)),
        total=draw(st.booleans()),
        **common,
    )
    id = draw(draws.runs)
    return draw(
        st.sampled_from((listed, listed, GetRunTree(id=id, **common), GetRun(id=id, **common)))
    )
