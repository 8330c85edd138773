"""The rules of a context by themselves: counting, pruning, cutting."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone import Message, Prune, assistant, system, tool_call, tool_result, user
from ledgerstone.errors import InvalidValue
from ledgerstone.records.context import ContextRows
from ledgerstone.records.messages import message
from ledgerstone.rules.context import TOKENS_PER_MEDIA, answers_of, build, calls_of, estimate


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("", 4),
        ("x" * 400, 104),
        ([{"type": "reasoning", "text": "x" * 40}], 14),
        ([tool_call("read", {"a": "x" * 32}, id="c")], 15),
        ([{"type": "tool-result", "call_id": "c", "content": "x" * 40}], 14),
        ([{"type": "tool-result", "call_id": "c", "content": ["x" * 36]}], 14),
        ([{"type": "code", "code": "x" * 40}], 14),
        ([{"type": "image", "data": "x" * 9_999}], 4 + TOKENS_PER_MEDIA),
        ([{"type": "of-their-own", "text": "x" * 40}], 22),
        ([{"type": "json", "value": ["\ud800" * 40]}], 71),
    ],
)
def test_the_estimate(content: object, tokens: int) -> None:
    assert estimate(user(content)) == tokens


def test_outputs_that_are_plain_text_are_pruned_as_well() -> None:
    call = assistant([tool_call("read", id="c1"), tool_call("skill", id="c2")], id="call")
    tail = [
        call,
        message("tool", "x" * 400, id="r1", tool_call_id="c1"),
        message("tool", "y" * 400, id="r2", tool_call_id="c2"),
        message("tool", "z" * 400, id="r3", tool_call_id="c3", tool_name="skill"),
        user("next", id="q"),
    ]
    found = build(ContextRows(tail=tail), prune=Prune(protect_tokens=0, min_saved_tokens=0))
    assert found.pruned == ["r1"]
    assert [one.text for one in found.messages][1] == "[removed to save context]"
    assert found.messages[1].body.tool_call_id == "c1"


def test_an_output_that_is_shorter_than_the_placeholder_stays() -> None:
    tail = [assistant([tool_call("read", id="c")]), tool_result("c", "ok", id="r")]
    found = build(ContextRows(tail=tail), prune=Prune(protect_tokens=0, min_saved_tokens=0))
    assert (found.pruned, found.complete) == ([], True)


def test_calls_in_a_form_of_their_own_keep_their_results_too() -> None:
    """Frameworks may keep calls where the store does not look for them."""
    call = assistant([{"type": "function_call", "call": "c1"}], id="call")
    answer = message("tool", "ok", id="r", tool_call_id="c1")
    tail = [user("old", id="old"), call, answer, user("new", id="new")]
    wanted = {40: 4, 39: 3, 30: 3, 29: 1}
    for budget, count in wanted.items():
        found = build(ContextRows(tail=tail), budget_tokens=budget, count=lambda _: 10)
        assert len(found.messages) == count


def test_a_system_message_in_the_middle_is_never_dropped() -> None:
    tail = [user("a", id="a"), system("rule", id="s"), user("b", id="b"), user("c", id="c")]
    found = build(ContextRows(tail=tail), budget_tokens=20, count=lambda _: 10)
    assert [one.id for one in found.messages] == ["s", "c"]
    assert found.dropped == 2


def test_a_system_message_in_the_tail_is_not_taken_for_a_leading_one() -> None:
    summary = assistant("so far", id="sum", is_summary=True)
    tail = [
        Message(body=system("new rule").body, id="s", parent="before"),
        Message(body=user("go").body, id="q", parent="s"),
    ]
    rows = ContextRows(request=user("sum up"), summary=summary, tail=tail)
    assert [one.id for one in build(rows).messages] == ["sum", "s", "q"]
    assert [one.id for one in build(rows, keep_system=False).messages] == ["sum", "s", "q"]


steps = st.lists(st.sampled_from(["user", "assistant", "system", "call", "answer"]), max_size=14)


def _conversation(words: list[str]) -> list[Message]:
    """Calls are answered, if at all, by one of the next answers; ids are used again."""
    found: list[Message] = []
    waiting: list[str] = []
    for n, word in enumerate(words):
        if word == "call":
            names = [f"c{n % 3}", f"c{(n + 1) % 3}"]
            waiting += names
            made: Any = assistant([tool_call("t", id=name) for name in names], id=f"m{n}")
        elif word == "answer":
            if not waiting:
                continue
            made = tool_result(waiting.pop(0), n, id=f"m{n}")
        else:
            made = message(word, f"{n}", id=f"m{n}")
        found.append(made)
    return found


def _torn(messages: list[Message], kept: list[Message]) -> list[str]:
    """Results in `kept` whose call, the one before it in `messages`, is not there."""
    ids = {one.id for one in kept}
    asked: dict[str, str] = {}
    torn = []
    for one in messages:
        asked.update((call, one.id) for call in calls_of(one))
        if one.id in ids:
            torn += [one.id for call in answers_of(one) if asked.get(call) not in ids]
    return torn


def _needed(rows: ContextRows, budget: int) -> int:
    """What the refusal says is needed; 0 when there is none."""
    try:
        build(rows, budget_tokens=budget, count=lambda _: 10)
    except InvalidValue as error:
        needed, given_tokens = (int(word) for word in error.reason.split() if word.isdigit())
        return needed if given_tokens == budget < needed else -1
    return 0


@given(steps, st.integers(1, 150))
def test_whatever_is_cut_fits_and_is_whole(words: list[str], budget: int) -> None:
    tail = _conversation(words)
    rows = ContextRows(tail=tail)
    budget = max(budget, _needed(rows, budget))
    found = build(rows, budget_tokens=budget, count=lambda _: 10)
    assert found.tokens == 10 * len(found.messages) <= budget
    assert _torn(tail, found.messages) == []
    assert found.messages[-1:] == tail[-1:]
    assert found.dropped == len(tail) - len(found.messages)
    gone = [one for one in tail if one not in found.messages]
    assert not [one for one in gone if one.role == "system"]
    # It is the end of the conversation, but for the system messages.
    spoken = [one for one in found.messages if one.role != "system"]
    assert spoken == [one for one in tail if one.role != "system"][len(gone) :]
