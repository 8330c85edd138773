"""The messages of a session as entries of a conversation: each has an id and the one before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from msgspec.structs import replace
from pydantic_ai.conversation_store import ConversationEntry

from ledgerstone import formats
from ledgerstone.adapters.pydantic_ai import chains
from ledgerstone.adapters.pydantic_ai.chains import FORMAT, Chain
from ledgerstone.adapters.pydantic_ai.conversation_records import entry_id, inner_id, node_of
from ledgerstone.adapters.sync_async import AnyStore, of
from ledgerstone.commands.nodes import GetMessage, ReadMessages
from ledgerstone.formats.media import BLOBS
from ledgerstone.formats.natives import NATIVE
from ledgerstone.formats.turns import Segment, turns
from ledgerstone.records.messages import Message


async def read(
    store: AnyStore, entry: str, limit: int | None, home: str | None
) -> list[ConversationEntry] | None:
    """The entries up to this one, or the last so many; None when it is nowhere.

    `home` is the session where it is looked for first.
    """
    path = await path_to(store, entry, home, None if limit is None else limit + 1)
    if path and limit is not None and len(path) > limit:
        if all(map(_is_own, path)):
            return await _entries(store, path[1:], entry_id(path[0]))
        # Of other frameworks, how many messages it will be shows only when all are there.
        path = await path_to(store, entry, path[0].session, None)
    if path is None:
        return None
    found = await _entries(store, path, None)
    return found if limit is None else found[-limit:]


async def path_to(
    store: AnyStore, entry: str, home: str | None, last: int | None = None
) -> list[Message] | None:
    """The messages up to an entry, or the last so many; None when it is nowhere."""
    session, id = node_of(entry)
    where = session or home
    found = None if where is None else await _path(store, where, id, last)
    if found is None and session is None:
        message = await of(store.messages.get(id))
        return None if message is None else await _path(store, message.session, id, last)
    return found


def copies(path: Sequence[Message]) -> list[Message]:
    """Messages as another session begins with them: the same ids and times, no runs."""
    return [replace(one, body=_as_shown(one).body, run_id=None, version=0) for one in path]


def _as_shown(one: Message) -> Message:
    """An amended message without its native, which says what it was before."""
    if not one.version:
        return one
    rest = {
        name: said for name, said in (one.body.extra or {}).items() if name not in (NATIVE, BLOBS)
    }
    return replace(one, body=replace(one.body, extra=rest or None))


async def _path(store: AnyStore, session: str, id: str, last: int | None) -> list[Message] | None:
    tenant = store.tenant or ""
    message, path = await of(
        store.read(
            GetMessage(tenant=tenant, session=session, id=id),
            ReadMessages(tenant=tenant, session=session, at=id, last=last),
        )
    )
    found: list[Message] = path
    return None if message is None else found


async def _entries(
    store: AnyStore, path: Sequence[Message], before: str | None
) -> list[ConversationEntry]:
    messages, chain = await chains.show(store, path)
    found: list[ConversationEntry] = []
    for id, message in zip(_names(path, chain), messages, strict=True):
        found.append(ConversationEntry(id=id, parent_id=before, message=message))
        before = id
    return found


def _is_own(one: Message) -> bool:
    """Whether a message is exactly one of this library's; an amended one is shown by its parts."""
    return formats.origin(one) == FORMAT and not one.version


def _names(path: Sequence[Message], chain: Chain) -> list[str]:
    """The entry of each message that a path is shown as."""
    found: list[str] = []
    for own, group in groupby(path, _is_own):
        run = list(group)
        if own:
            found += map(entry_id, run)
        else:
            found += _foreign(run, _shown(chain, len(found), run[-1].id))
    return found


def _shown(chain: Chain, start: int, last: str) -> int:
    """How many messages a run of other origin, which ends with the node `last`, is shown as."""
    before = chain.links[start - 1].tip if start else chain.root
    if before == last:
        # It says nothing, so what is before it ends there too.
        return 0
    return [link.tip for link in chain.links[start:]].index(last) + 1


def _foreign(run: Sequence[Message], count: int) -> list[str]:
    """The entries of so many messages that a run of other origin is shown as."""
    if not count:
        return []
    found = _ends(run)[:-1]
    if len(found) != count - 1:
        found = [inner_id(run[-1], n) for n in range(count - 1)]
    return [*found, entry_id(run[-1])]


def _ends(run: Sequence[Message]) -> list[str]:
    """The entries that a run of other origin becomes, as the format puts it together."""
    shown: list[list[Segment]] = []
    for answers, group in groupby(turns(run), lambda turn: turn[0].role == "assistant"):
        made = list(group)
        shown += made if answers else [[segment for turn in made for segment in turn]]
    begins = [one[0].source.id for one in shown]
    ends = [one[-1].source for one in shown]
    before: Counter[str] = Counter()
    found: list[str] = []
    for n, end in enumerate(ends):
        # Where the next one goes on with the same message, no node ends.
        inside = end.id in begins[n + 1 : n + 2]
        found.append(inner_id(end, before[end.id]) if inside else entry_id(end))
        before[end.id] += 1
    return found
