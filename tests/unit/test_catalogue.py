"""Named statements: how the .sql files are read, and which mistakes are told at once."""

from __future__ import annotations

import sqlite3

import pytest

from ledgerstone.sql.catalogue import Statement, load, parse

CONDITIONAL = """
-- name: list_things(tenant, user, limit)
select id from things
where tenant = :tenant
  and user = :user -- if user
order by id
limit :limit -- if limit
"""


def only(text: str) -> Statement:
    (statement,) = parse(text)
    return statement


def test_arguments_become_numbers_in_the_order_of_the_name() -> None:
    statement = only("-- name: put(a, b, c)\nupdate t set x = :c, y = :a where z = :b and a = :a\n")
    assert statement.name == "put"
    assert statement.arguments == ("a", "b", "c")
    assert statement.text == "update t set x = ?3, y = ?1 where z = ?2 and a = ?1"
    assert not statement.has_conditions


def test_a_file_holds_many_statements_and_comments() -> None:
    text = """
-- A file about things.

-- name: first()
-- says why
select 1

-- name: second(x)
select :x;
"""
    first, second = parse(text)
    assert (first.name, first.arguments, first.text) == ("first", (), "select 1")
    assert second.text == "select ?1;"


def test_lines_with_a_condition_come_and_go() -> None:
    statement = only(CONDITIONAL)
    assert statement.has_conditions
    text, bound = statement.variant(frozenset({"tenant"}))
    assert "user =" not in text
    assert "limit" not in text
    assert bound == ("tenant",)
    text, bound = statement.variant(frozenset({"tenant", "limit"}))
    assert text.endswith("limit ?2")
    assert bound == ("tenant", "limit")
    text, bound = statement.variant(frozenset({"tenant", "user", "limit"}))
    assert (text.count("?"), bound) == (3, ("tenant", "user", "limit"))


def test_a_condition_may_need_several_arguments() -> None:
    statement = only("-- name: q(a, b)\nselect 1\nwhere (x, y) > (:a, :b) -- if a, b\n")
    assert statement.variant(frozenset({"a"})) == ("select 1", ())
    assert statement.variant(frozenset({"a", "b"}))[1] == ("a", "b")


def test_a_flag_may_switch_a_line_without_being_bound() -> None:
    statement = only("-- name: q(tenant, live)\nselect :tenant\nwhere deleted is null -- if live\n")
    text, bound = statement.variant(frozenset({"tenant", "live"}))
    assert text.endswith("where deleted is null")
    assert bound == ("tenant",)


@pytest.mark.parametrize(
    ("text", "odd"),
    [
        ("-- name: q(a)\nselect :a, :b\n", "'b'"),
        ("-- name: q(a, b)\nselect :a\n", "'b'"),
        ("-- name: q()\nselect :a\n", "'a'"),
        ("-- name: q(a)\nselect 1\nwhere x = :a -- if b\n", "'b'"),
    ],
    ids=["unnamed", "unused", "none", "condition"],
)
def test_arguments_that_do_not_fit_the_text_are_told(text: str, odd: str) -> None:
    with pytest.raises(ValueError, match=f"query q: arguments and text disagree on .*{odd}"):
        list(parse(text))


def test_casts_and_times_are_not_arguments() -> None:
    """Two colons are a cast; a colon inside a word is no argument."""
    statement = only("-- name: q(a)\nselect :a::text, x:y from t\n")
    assert statement.text == "select ?1::text, x:y from t"


def test_variants_are_kept() -> None:
    statement = only(CONDITIONAL)
    given = frozenset({"tenant", "user"})
    assert statement.variant(given) is statement.variant(given)


def test_every_statement_of_the_family_is_there_once() -> None:
    loaded = load("postgres")
    assert len(loaded) > 30
    assert all(name == statement.name for name, statement in loaded.items())
    assert all(statement.text or statement.has_conditions for statement in loaded.values())


def test_two_statements_of_one_name_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledgerstone.sql import catalogue

    def twice(text: str, mark: str) -> list[Statement]:
        return [Statement("same", (), ["select 1"])]

    monkeypatch.setattr(catalogue, "parse", twice)
    catalogue.load.cache_clear()
    try:
        with pytest.raises(ValueError, match="two queries are named same"):
            catalogue.load("postgres")
    finally:
        catalogue.load.cache_clear()


def test_numbered_parameters_mean_what_we_think() -> None:
    """The same text with any driver that numbers them: here Python's own."""
    statement = only("-- name: q(a, b)\nselect :b, :a, :b\n")
    with sqlite3.connect(":memory:") as connection:
        assert connection.execute(statement.text, ("A", "B")).fetchone() == ("B", "A", "B")
    connection.close()
