"""Whatever is done to it, a session holds what the SDK's own SQLite session would hold."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agents import SQLiteSession
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledgerstone import ids
from ledgerstone.adapters.openai_agents import LedgerSession
from ledgerstone.adapters.openai_agents_items import OTHER
from tests.adapters.conftest import opened

texts = st.text(max_size=12)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | texts
values = st.recursive(
    scalars | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
blocks = st.one_of(
    st.fixed_dictionaries({"type": st.just("input_text"), "text": texts}),
    st.fixed_dictionaries({"type": st.just("output_text"), "text": texts, "annotations": values}),
    st.fixed_dictionaries(
        {"type": st.just("input_image"), "image_url": texts}, optional={"detail": texts}
    ),
    st.fixed_dictionaries({"type": texts}, optional={"more": values}),
)
items = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system", "developer"]), "content": texts},
        optional={"id": texts, "status": texts},
    ),
    st.fixed_dictionaries(
        {"content": st.lists(blocks, max_size=3), "role": st.sampled_from(["user", "assistant"])},
        optional={"type": st.just("message"), "phase": values},
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("function_call"),
            "call_id": texts,
            "name": texts,
            "arguments": texts | values.map(json.dumps),
        },
        optional={"id": texts},
    ),
    st.fixed_dictionaries(
        {"type": st.just("function_call_output"), "call_id": texts, "output": values}
    ),
    st.fixed_dictionaries(
        {"type": st.just("reasoning"), "summary": st.lists(blocks, max_size=2)},
        optional={"encrypted_content": texts, "id": texts},
    ),
    st.fixed_dictionaries({"type": st.just(OTHER)}, optional={"item": values}),
    st.dictionaries(texts, values, max_size=4),
)
steps = st.one_of(
    st.tuples(st.just("add"), st.lists(items, max_size=4)),
    st.tuples(st.just("get"), st.none() | st.integers(-2, 12)),
    st.tuples(st.just("pop"), st.none()),
    st.tuples(st.just("clear"), st.none()),
)


async def do(session: Any, step: str, given: Any) -> Any:
    if step == "add":
        return await session.add_items(given)
    if step == "get":
        return await session.get_items(given)
    return await (session.pop_item() if step == "pop" else session.clear_session())


def same(ours: Any, theirs: Any) -> bool:
    """Equal to the order of keys, and to the sign of a zero."""
    return json.dumps(ours) == json.dumps(theirs)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(program=st.lists(steps, max_size=12))
def test_as_the_sqlite_session(store_url: str, colour: str, program: list[tuple[str, Any]]) -> None:
    async def main() -> None:
        name = ids.new_id()
        theirs = SQLiteSession(name)
        async with opened(store_url, colour) as store:
            ours = LedgerSession(store, name)
            for step, value in program:
                expected = await do(theirs, step, value)
                assert same(await do(ours, step, value), expected), (step, value)
            assert same(await ours.get_items(), await theirs.get_items())
        theirs.close()

    asyncio.run(main())
