"""Values of channels and writes, as JSON trees.

Plain JSON stands for itself. What it cannot say, or what is stored elsewhere, is an object with
one key that begins with "$":

    {"$tip": node, "n": 4}      a list of messages: the path that ends there ("f": where it begins)
    {"$msgs": [tree, [tree]]}   a list of messages that goes on after such a path
    {"$msg": node}              one message, stored as a node ("id": when its id is another one)
    {"$new": text, "id": id}    one message that is no node yet
    {"$text": node}             the text of such a message
    {"$value": digest}          bytes kept once by content ("t": kind of the serializer, else JSON)
    {"$b": [kind, base64]}      few bytes of the serializer
    {"$dict": [[key, tree]]}    an object whose keys are not in order, or begin with "$"
    {"$send": [node, tree]}, {"$delta": tree}    objects of LangGraph's that may hold messages
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send

from ledgerstone.adapters.langgraph.chains import Chain, Key
from ledgerstone.adapters.langgraph.messages import Messages, fresh, fresh_all, is_list, of_text
from ledgerstone.adapters.langgraph.serializer import CheckedSerializer, to_text
from ledgerstone.codec import decode_json, encode_json, sha256
from ledgerstone.errors import Corrupt

if TYPE_CHECKING:
    from ledgerstone.adapters.langgraph.context import MessageIndex

Tree: TypeAlias = Any

MAIN = "messages"
"""The channel that is the conversation; without it, the first one that holds messages."""
COUNTERS = "counters_since_delta_snapshot"
"""Key of the metadata that names the delta channels of a checkpoint."""
INLINE_BYTES = 256
TEXT_CHARS = 160
"""A text from here on is worth a pointer to the message that says it."""
STEPS_MAX = 2000
DEPTH_MAX = 24
_INT_MAX = 1 << 63
_WHOLE = ("$value", "$tip", "$b")


class TooBig(Exception):
    """The value is better stored as a whole."""


class Writer:
    """Encodes the values of one call; `values` are the bytes to be stored along."""

    def __init__(
        self,
        messages: Messages,
        index: MessageIndex,
        *,
        late: bool | frozenset[str] = False,
    ) -> None:
        self._serializer = messages.serializer
        self._messages = messages
        self._index = index
        self._late = late is True
        """Texts stay in the tree: the message that says them may come later."""
        self._late_keys = late if isinstance(late, frozenset) else None
        self._steps = 0
        self.values: dict[str, bytes] = {}

    def write(self, value: Any, path: str) -> Tree:
        """A value as a tree of few bytes, or with what is larger in `values`."""
        if not self._serializer.is_open and not is_list(value):
            return self._leaf(value, path)
        if _is_plain(value, type(value)):
            return value
        self._steps = 0
        before = dict(self.values)
        try:
            tree = self._tree(value, path, 0)
        except TooBig:
            self.values = before
            return self._leaf(value, path)
        if (self._late or self._late_keys) and has_new(tree):
            return tree
        data = encode_json(tree, path)
        if len(data) <= INLINE_BYTES or (type(tree) is dict and word_of(tree) in _WHOLE):
            return tree
        inner = list(dict.fromkeys(digests(tree)))
        found = {"$value": self._keep(data)}
        return {**found, "r": inner} if inner else found

    def _tree(self, value: Any, path: str, depth: int) -> Tree:
        self._steps += 1
        if self._steps > STEPS_MAX or depth > DEPTH_MAX:
            raise TooBig
        kind = type(value)
        if kind is str:
            return self._text(value)
        if _is_plain(value, kind):
            return value
        if isinstance(value, BaseMessage):
            return self._message(value, path)
        if kind is list or kind is tuple:
            if is_list(value):
                return self._list(value, path)
            return [self._tree(one, f"{path}[{n}]", depth + 1) for n, one in enumerate(value)]
        if kind is dict and all(type(key) is str for key in value):
            return self._dict(value, path, depth)
        return self._object(value, kind, path, depth)

    def _object(self, value: Any, kind: type, path: str, depth: int) -> Tree:
        if kind is Send and value.timeout is None:
            return {"$send": [value.node, self._tree(value.arg, f"{path}.arg", depth + 1)]}
        if kind is _DeltaSnapshot:
            return {"$delta": self._tree(value.value, path, depth + 1)}
        return self._leaf(value, path)

    def _dict(self, value: dict[str, Any], path: str, depth: int) -> Tree:
        pairs = []
        for key, one in value.items():
            if depth == 0 and self._late_keys is not None:
                self._late = key in self._late_keys
            pairs.append((key, self._tree(one, f"{path}.{key}", depth + 1)))
        keys = [key for key, _ in pairs]
        if keys != sorted(keys) or any(key.startswith("$") for key in keys):
            return {"$dict": [list(pair) for pair in pairs]}
        return dict(pairs)

    def _text(self, value: str) -> Tree:
        if len(value) < TEXT_CHARS:
            return value
        node = self._index.said_by(value)
        if node is not None:
            return {"$text": node}
        if self._late or len(value) <= INLINE_BYTES:
            return value
        return {"$value": self._keep(encode_json(value, "text"))}

    def _message(self, value: BaseMessage, path: str) -> Tree:
        found = self._messages.plain(value)
        if found is None:
            return self._leaf(value, path)
        return pointer(self._index, found[0], value.id)

    def _list(self, value: list[BaseMessage], path: str) -> Tree:
        found = self._index.path_of(value)
        if found is not None and found[1] == len(value):
            return found[0]
        base, length = found or (None, 0)
        rest = [self._message(one, f"{path}[{n}]") for n, one in enumerate(value) if n >= length]
        return rest if base is None else {"$msgs": [base, rest]}

    def _leaf(self, value: Any, path: str) -> Tree:
        kind, data, _ = self._serializer.dump(value, path)
        if len(data) <= INLINE_BYTES:
            return {"$b": [kind, to_text(data)]}
        return {"$value": self._keep(data), "t": kind}

    def _keep(self, data: bytes) -> str:
        digest = sha256(data)
        self.values[digest] = data
        return digest


class LoadedMessages:
    """Messages that were read for some checkpoints of one session."""

    def __init__(self) -> None:
        self.chains: dict[Key, Chain] = {}
        self.singles: dict[str, BaseMessage | None] = {}
        """Messages by their nodes; None for one that was deleted since."""

    def take_from_chain(self, node: str) -> bool:
        """Whether one of the chains has a message, which is a single one then."""
        for chain in self.chains.values():
            if node in chain.nodes:
                self.singles[node] = chain.items[list(chain.nodes).index(node)]
                return True
        return False


class References:
    """The paths and single messages that some trees point at."""

    def __init__(self) -> None:
        self.tips: dict[Key, None] = {}
        self.nodes: dict[str, None] = {}

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

    def __init__(
        self, serializer: CheckedSerializer, values: Mapping[str, bytes], loaded: LoadedMessages
    ) -> None:
        self._serializer = serializer
        self._values = values
        self._loaded = loaded

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
            return self._special(word, tree, path)
        return {key: self.read(one, f"{path}.{key}") for key, one in tree.items()}

    def _special(self, word: str, tree: dict[str, Tree], path: str) -> Any:
        found: Any = None
        match word, tree[word]:
            case "$tip", tip:
                found = fresh_all(self._loaded.chains[tip, tree.get("f")].items)
            case "$msgs", [base, rest]:
                before = [] if base is None else self.read(base, path)
                found = before + self.read(rest, path)
            case "$msg", node:
                message = self._loaded.singles[node]
                if message is not None:
                    found = fresh(message)
                    if "id" in tree:
                        found.id = tree["id"]
            case "$new", text:
                found = of_text(text, tree["id"])
            case "$text", node:
                message = self._loaded.singles[node]
                found = "" if message is None else message.content
            case "$value", digest:
                found = self._value(digest, tree.get("t"), path)
            case "$b", [kind, text]:
                found = self._serializer.open(kind, text, path)
            case "$dict", pairs:
                found = {key: self.read(one, f"{path}.{key}") for key, one in pairs}
            case "$send", [node, arg]:
                found = Send(node, self.read(arg, path))
            case "$delta", inner:
                found = _DeltaSnapshot(self.read(inner, path))
            case _:
                raise Corrupt("nodes", path, "value", f"unknown kind of value: {word[:64]!r}")
        return found

    def _value(self, digest: str, kind: str | None, path: str) -> Any:
        data = self._values.get(digest)
        if data is None:
            raise Corrupt("contents", digest, "data", f"it is missing, for {path}")
        if kind is not None:
            return self._serializer.open(kind, data, path)
        return self.read(decode_json(data), path)


def pointer(index: MessageIndex, key: str, id: str | None) -> Tree:
    """A message as a pointer to its node, or as itself when there is none yet."""
    found = index.node_of(key, id)
    if found is None:
        return {"$new": key, "id": id}
    node, stored_id = found
    return {"$msg": node} if id == stored_id else {"$msg": node, "id": id}


def has_new(tree: Tree) -> bool:
    """Whether a tree says something that a message node may say later."""
    return any("$new" in one if type(one) is dict else _is_long(one) for one in walk(tree))


def settled(tree: Tree, index: MessageIndex) -> Tree:
    """The tree with pointers instead of what has become a node since."""
    if type(tree) is list:
        return [settled(one, index) for one in tree]
    if type(tree) is not dict:
        node = index.said_by(tree) if _is_long(tree) else None
        return tree if node is None else {"$text": node}
    word = word_of(tree)
    if word == "$new":
        return pointer(index, tree["$new"], tree["id"])
    if word == "$dict":
        return {word: [[key, settled(one, index)] for key, one in tree[word]]}
    if word == "$send":
        node, arg = tree[word]
        return {word: [node, settled(arg, index)]}
    if word is None or word in ("$msgs", "$delta"):
        return {key: settled(one, index) for key, one in tree.items()}
    return tree


def word_of(tree: dict[str, Tree]) -> str | None:
    """What an object of a tree stands for; None for a plain one."""
    return next((key for key in tree if key.startswith("$")), None)


def walk(tree: Tree) -> Iterator[Tree]:
    """Every object and leaf of a tree, without what stands inside a pointer."""
    if type(tree) is dict:
        yield tree
        word = word_of(tree)
        inner: Any = ()
        if word is None:
            inner = list(tree.values())
        elif word == "$dict":
            inner = [one for _, one in tree[word]]
        elif word == "$send":
            inner = tree[word][1:]
        elif word in ("$msgs", "$delta"):
            inner = [tree[word]]
        for one in inner:
            yield from walk(one)
    elif type(tree) is list:
        for one in tree:
            yield from walk(one)
    else:
        yield tree


def digests(tree: Tree) -> Iterator[str]:
    for one in walk(tree):
        if type(one) is dict and "$value" in one:
            yield one["$value"]
            yield from one.get("r", ())


def chain_key(tree: Tree) -> tuple[str, str | None] | None:
    """Where the list of a channel ends and begins, when it is one; a delta channel's too."""
    if type(tree) is dict and "$delta" in tree:
        tree = tree["$delta"]
    if type(tree) is not dict or tree.get("$tip") is None:
        return None
    return tree["$tip"], tree.get("f")


def main_channel(names: Iterable[str]) -> str | None:
    """Which of the channels that hold messages is the conversation."""
    found = sorted(names)
    return MAIN if MAIN in found else next(iter(found), None)


def _is_message(tree: Tree) -> bool:
    return type(tree) is dict and "$msg" in tree


def _is_plain(value: Any, kind: type) -> bool:
    """Whether JSON says a number, or the like, exactly."""
    if kind is float:
        return math.isfinite(value)
    if kind is int:
        return bool(-_INT_MAX <= value < _INT_MAX)
    return value is None or kind is bool


def _is_long(value: Any) -> bool:
    return type(value) is str and len(value) >= TEXT_CHARS
