"""Lists of pydantic-ai messages as paths of message nodes, and what two lists have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from pydantic import ValidationError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ledgerstone import formats
from ledgerstone.adapters import native_bytes
from ledgerstone.adapters.native_bytes import Native
from ledgerstone.adapters.sync_async import AnyStore, of
from ledgerstone.api.turn import AsyncTurn
from ledgerstone.api_sync.turn import Turn
from ledgerstone.clock import to_datetime
from ledgerstone.errors import BlobNotFound, Corrupt, InvalidValue
from ledgerstone.formats import media
from ledgerstone.formats.turns import paired
from ledgerstone.records.messages import Message

FORMAT = "pydantic-ai"
_STAMPS: Native = dict.fromkeys(("timestamp", "run_id", "conversation_id", "instructions"))
"""What a request is given when it is sent."""
_DATED = ("user-prompt", "system-prompt", "tool-return", "retry-prompt")


class Link(NamedTuple):
    """One native of a path: its digest, and the node where it ends, when one ends there."""

    digest: bytes
    tip: str | None


class Chain(NamedTuple):
    """A path as a list of natives; `root` is the tip before the first of them."""

    links: tuple[Link, ...] = ()
    root: str | None = None
    gone: frozenset[bytes] | None = frozenset()
    """What stood on the path and was deleted or amended since; None when nobody looked."""

    def common(self, digests: Sequence[bytes]) -> tuple[int, str | None]:
        """How many natives both begin with, as far as a node ends there, and that node."""
        count = 0
        for link, digest in zip(self.links, digests, strict=False):
            if link.digest != digest:
                break
            count += 1
        while count and self.links[count - 1].tip is None:
            count -= 1
        return count, self.links[count - 1].tip if count else self.root

    def grown(self, kept: int, digests: Sequence[bytes], ids: Sequence[str]) -> Chain:
        """The chain that begins with `kept` of these links and goes on with new nodes."""
        fresh = (Link(digest, id) for digest, id in zip(digests, ids, strict=True))
        return self._replace(links=(*self.links[:kept], *fresh))


def dump(messages: Sequence[ModelMessage]) -> list[Native]:
    """Messages as JSON; InvalidValue names the place of a value that JSON cannot express."""
    try:
        found: list[Native] = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
        return found
    except ValueError as error:
        raise InvalidValue(_fault(messages), str(error)) from None


def digest(native: Native) -> bytes:
    """Return the same bytes only for equal natives whose keys are in the same order."""
    try:
        data = msgspec.json.encode(native)
    except UnicodeEncodeError:
        # Half of a surrogate pair, which JSON can spell and UTF-8 cannot.
        data = json.dumps(native).encode()
    return sha256(data).digest()


def goes_on(chain: Chain, natives: Sequence[Native], digests: Sequence[bytes]) -> bool:
    """Whether a list begins with a chain, apart from what sending adds to its last request."""
    same, _ = chain.common(digests)
    if same != len(chain.links) - 1 or same >= len(natives):
        return same == len(chain.links)
    bare = {**natives[same], **_STAMPS}
    return natives[same].get("kind") == "request" and digest(bare) == chain.links[same].digest


async def keep(
    store: AnyStore,
    natives: Sequence[Native],
    ids: Sequence[str],
    run_id: str | None = None,
    *,
    first: int = 0,
) -> list[Message]:
    """Natives from number `first` on as messages with these ids, their bytes put before.

    InvalidValue names the place, and nothing is put.
    """
    kept = []
    takings = [native_bytes.take(native, _binary) for native in natives]
    for n, (taken, id) in enumerate(zip(takings, ids, strict=True), start=first):
        try:
            message = formats.keep(FORMAT, taken.native, id=id, run_id=run_id)
        except InvalidValue as error:
            place = error.field.removeprefix(FORMAT)
            raise InvalidValue(f"messages[{n}]{place}", error.reason) from None
        kept.append(native_bytes.marked(message, taken))
    _check([taken.native for taken in takings], first)
    for taken in takings:
        await native_bytes.put(store, taken)
    return kept


def count(turn: Turn | AsyncTurn, messages: Sequence[Message]) -> None:
    """Record the usage of messages; a budget cannot refuse what was already used."""
    for one in messages:
        if one.usage is not None and (one.usage.input or one.usage.output):
            turn.use(one.body.model or "unknown", one.usage, over_budget=True)


async def current_chain(store: AnyStore, path: Sequence[Message], *, anew: bool = False) -> Chain:
    """The live natives of a path that was read with its deleted messages, and what is gone."""
    live = [one for one in path if one.deleted_us is None]
    _, chain = await show(store, live, anew=anew)
    gone = {
        mark
        for one in path
        if one.deleted_us is not None or one.version
        for mark in await _original(store, one)
    }
    return chain._replace(gone=frozenset(gone - {link.digest for link in chain.links}))


async def _original(store: AnyStore, changed: Message) -> list[bytes]:
    """The digest of what a message said at first, if this library said it."""
    found = [changed]
    if changed.version:
        found = await of(store.messages.versions(changed.id, session=changed.session))
    first = [one for one in found[:1] if formats.origin(one) == FORMAT and not one.version]
    try:
        return [digest(one) for one in _exact(first, await native_bytes.get(store, first))]
    except BlobNotFound:
        return []


def is_whole(path: Sequence[Message], leaf: str | None) -> bool:
    """Whether nothing was deleted from a path up to a leaf, or amended on it."""
    if not path:
        return leaf is None
    dense = all(one.seq == n and not one.version for n, one in enumerate(path, start=1))
    return dense and path[-1].id == leaf


def first_fault(error: ValidationError) -> tuple[list[str], str]:
    """The place of the first thing that is wrong, and why, without what is there."""
    first = error.errors(include_url=False, include_input=False)[0]
    return [str(step) for step in first["loc"]], first["msg"]


async def show(
    store: AnyStore, path: Sequence[Message], *, anew: bool = False
) -> tuple[list[ModelMessage], Chain]:
    """A path as pydantic-ai messages: its own exactly, those of other origins from their parts.

    The chain says what the caller will hand back. That is what is stored, unless another version
    of the library stored it: with `anew` every message is written again to know.
    """
    natives: list[Native] = []
    tips: list[str | None] = []
    foreign: list[int] = []
    root: str | None = None
    # What was amended since does not say any more what it said to this library.
    flags = [formats.origin(one) == FORMAT and not one.version for one in path]
    whole = path if all(flags) else paired(path, flags)
    known = await native_bytes.get(store, path)
    for own, group in groupby(zip(whole, flags, strict=True), lambda pair: pair[1]):
        run = [one for one, _ in group]
        if own:
            natives += _exact(run, known)
            tips += [one.id for one in run]
            continue
        inside = [formats.with_bytes(one, known) for one in run]
        made = [_dated(one, run[-1].created_us) for one in formats.native(FORMAT, inside)]
        foreign += range(len(natives), len(natives) + len(made))
        natives += made
        tips += [None] * len(made)
        if tips:
            tips[-1] = run[-1].id
        else:
            root = run[-1].id
    objects = _objects(natives, path)
    unsure = range(len(natives)) if anew else foreign
    for n, native in zip(unsure, dump([objects[n] for n in unsure]), strict=True):
        natives[n] = native
    return objects, Chain(tuple(map(Link, map(digest, natives), tips)), root, None)


def _exact(run: Sequence[Message], known: Mapping[str, bytes | None]) -> list[Native]:
    """The very natives that messages were made of."""
    found = formats.native(FORMAT, map(media.with_refs, run))
    for native, stored in zip(found, run, strict=True):
        media.fill(native, stored, known)
    return found


def _binary(holder: Native) -> tuple[str, int] | None:
    """Where the base64 text of binary content is."""
    is_one = holder.get("kind") == "binary" and isinstance(holder.get("data"), str)
    return ("data", 0) if is_one else None


def _objects(natives: list[Native], path: Sequence[Message]) -> list[ModelMessage]:
    try:
        return ModelMessagesTypeAdapter.validate_python(natives)
    except ValidationError as error:
        where = path[0].session if path else ""
        spot, reason = first_fault(error)
        raise Corrupt("nodes", where, ".".join(("messages", *spot)), reason) from None


def _check(natives: list[Native], number: int) -> None:
    """InvalidValue for what would be stored and could never be read: one such hides all others.

    The library checks no types when a message is made, only when it is read.
    """
    try:
        ModelMessagesTypeAdapter.validate_python(natives)
    except ValidationError as error:
        (n, *spot), reason = first_fault(error)
        place = ".".join((f"messages[{number + int(n)}]", *spot))
        raise InvalidValue(place, reason) from None


def _dated(native: Native, created_us: int) -> Native:
    """A rendered native with fixed times, since each reading would give it new ones."""
    at = to_datetime(created_us).isoformat().replace("+00:00", "Z")
    parts: list[Any] = [
        {"timestamp": at, **part}
        if isinstance(part, dict) and part.get("part_kind") in _DATED
        else part
        for part in native.get("parts", ())
    ]
    return {"timestamp": at, **native, "parts": parts}


def _fault(messages: Sequence[ModelMessage]) -> str:
    """The place of a value that JSON cannot express, as exactly as it can be found."""
    for n, one in enumerate(messages):
        path = f"messages[{n}]"
        try:
            plain = ModelMessagesTypeAdapter.dump_python([one], warnings=False)
            ModelMessagesTypeAdapter.dump_python([one], mode="json", warnings=False)
        except PydanticSerializationError:
            return _unsayable(plain[0], path) or path
        except ValueError:
            # It contains itself, or has no end that anybody could reach.
            return path
    return "messages"


def _unsayable(value: Any, path: str) -> str | None:
    """Where the first value is that JSON cannot express."""
    if isinstance(value, dict):
        inner = [(f"{path}.{key}", one) for key, one in value.items()]
    elif isinstance(value, list | tuple):
        inner = [(f"{path}[{n}]", one) for n, one in enumerate(value)]
    else:
        try:
            to_jsonable_python(value)
        except (PydanticSerializationError, ValueError):
            return path
        return None
    return next((found for name, one in inner if (found := _unsayable(one, name))), None)
