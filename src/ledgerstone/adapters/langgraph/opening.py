"""Trees made values again: what they point at, and how it is put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send

from ledgerstone.adapters.langgraph.messages import fresh, fresh_all, of_text
from ledgerstone.adapters.langgraph.opaques import Opaques
from ledgerstone.adapters.langgraph.values import Tree, walk, word_of
from ledgerstone.codec import decode_json
from ledgerstone.errors import Corrupt


class Found(Protocol):
    """What was read of the messages that trees point at."""

    def path(self, tip: str, first: str | None) -> list[BaseMessage]: ...

    def one(self, node: str) -> BaseMessage | None:
        """One message, or None when it was deleted since."""
        ...


class Needs:
    """The paths and single messages that some trees point at."""

    def __init__(self) -> None:
        self.tips: dict[tuple[str, str | None], None] = {}
        self.nodes: dict[str, None] = {}

    def add_all(self, trees: Iterable[Tree], values: Mapping[str, bytes]) -> None:
        """What all of them point at."""
        for tree in trees:
            self.add(tree, values)

    def add(self, tree: Tree, values: Mapping[str, bytes]) -> None:
        """Look through a tree, and through the trees among its values."""
        for one in walk(tree):
            if type(one) is not dict:
                continue
            if "$tip" in one:
                self.tips[one["$tip"], one.get("f")] = None
            for word in ("$msg", "$text"):
                if word in one:
                    self.nodes[one[word]] = None
            if "$value" in one and "t" not in one and one["$value"] in values:
                self.add(decode_json(values[one["$value"]]), values)


class Reader:
    """Makes values of trees; every answer is the caller's own."""

    def __init__(self, opaques: Opaques, values: Mapping[str, bytes], found: Found) -> None:
        self._opaques = opaques
        self._values = values
        self._found = found

    def read(self, tree: Tree, path: str) -> Any:
        """The value of a tree; Corrupt when something it points at is missing."""
        if type(tree) is list:
            found = [(one, self.read(one, path)) for one in tree]
            # A message that was deleted since is missing from its list.
            return [value for one, value in found if value is not None or not _is_message(one)]
        if type(tree) is not dict:
            return tree
        word = word_of(tree)
        if word is not None:
            return _WORDS[word](self, tree, path)
        return {key: self.read(one, f"{path}.{key}") for key, one in tree.items()}

    def _tip(self, tree: Tree, path: str) -> Any:
        return fresh_all(self._found.path(tree["$tip"], tree.get("f")))

    def _msgs(self, tree: Tree, path: str) -> Any:
        base, rest = tree["$msgs"]
        before = [] if base is None else self.read(base, path)
        return before + self.read(rest, path)

    def _msg(self, tree: Tree, path: str) -> Any:
        found = self._found.one(tree["$msg"])
        if found is None:
            return None
        made = fresh(found)
        if "id" in tree:
            made.id = tree["id"]
        return made

    def _new(self, tree: Tree, path: str) -> Any:
        return of_text(tree["$new"], tree["id"])

    def _text(self, tree: Tree, path: str) -> Any:
        found = self._found.one(tree["$text"])
        return "" if found is None else found.content

    def _value(self, tree: Tree, path: str) -> Any:
        data = self._values.get(tree["$value"])
        if data is None:
            raise Corrupt("contents", tree["$value"], "data", f"it is missing, for {path}")
        if "t" in tree:
            return self._opaques.open(tree["t"], data, path)
        return self.read(decode_json(data), path)

    def _bytes(self, tree: Tree, path: str) -> Any:
        kind, text = tree["$b"]
        return self._opaques.open(kind, text, path)

    def _dict(self, tree: Tree, path: str) -> Any:
        return {key: self.read(one, f"{path}.{key}") for key, one in tree["$dict"]}

    def _send(self, tree: Tree, path: str) -> Any:
        node, arg = tree["$send"]
        return Send(node, self.read(arg, path))

    def _delta(self, tree: Tree, path: str) -> Any:
        return _DeltaSnapshot(self.read(tree["$delta"], path))


_WORDS = {
    "$tip": Reader._tip,
    "$msgs": Reader._msgs,
    "$msg": Reader._msg,
    "$new": Reader._new,
    "$text": Reader._text,
    "$value": Reader._value,
    "$b": Reader._bytes,
    "$dict": Reader._dict,
    "$send": Reader._send,
    "$delta": Reader._delta,
}


def _is_message(tree: Tree) -> bool:
    return type(tree) is dict and "$msg" in tree
