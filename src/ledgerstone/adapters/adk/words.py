"""Words of a text, for finding memories by what they share with a query."""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby

_WORD = re.compile(r"\w+")


def words_of(text: str) -> set[str]:
    """Every word, in lower case."""
    return set(_WORD.findall(_plain(text)))


def score(wanted: set[str], text: str) -> int:
    """How many of the wanted words are in a text."""
    plain = _plain(text)
    there = words_of(text)
    for word in list(there):
        if not word.isascii():
            # Scripts without spaces: a Latin word among them is a word by itself.
            there |= {"".join(run) for _, run in groupby(word, _is_latin)}
    return sum(word in there or (not word.isascii() and word in plain) for word in wanted)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).lower()


def _is_latin(letter: str) -> bool:
    return letter.isascii() or unicodedata.name(letter, "").startswith("LATIN")
