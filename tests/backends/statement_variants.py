"""The texts that a statement with conditional lines can become."""

from __future__ import annotations

import itertools

from ledgerstone.sql.catalogue import Statement


def variants(statement: Statement) -> list[str]:
    """The text with each choice (columns, order), and with none, one and all of its options."""
    if not statement.has_conditions:
        return [statement.text]
    needs = {name for names, _ in statement._lines for name in names}
    choices = [_choices(statement, word) for word in ("select", "order by")]
    # A column that is given, or left empty in its place.
    choices += [{name, f"each_{name[3:]}"} for name in sorted(needs) if name.startswith("no_")]
    picked = set().union(*choices)
    options = [{name} for name in sorted(needs - picked)] + [set(), needs - picked]
    texts = [
        statement.variant(frozenset(option.union(chosen)))[0]
        for option in options
        for chosen in itertools.product(*(sorted(one) or [""] for one in choices))
    ]
    return list(dict.fromkeys(texts))


def _choices(statement: Statement, word: str) -> set[str]:
    """The arguments of which exactly one must be given: each brings its own line."""
    lines = [names for names, line in statement._lines if names and line.startswith(word)]
    return {name for names in lines for name in names}
