"""Memories: values by namespace and key."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from ledgerstone.commands.embeddings import NewEmbedding
from ledgerstone.commands.memories import (
    ChangeMemories,
    DeleteMemory,
    GetMemories,
    ListNamespaces,
    NewMemory,
    PutMemory,
    SearchMemories,
    SweepMemories,
    TouchMemory,
)
from ledgerstone.records.embeddings import Space
from ledgerstone.records.memories import Memory
from ledgerstone.rules import memories as rules
from ledgerstone.rules import namespaces
from ledgerstone.rules.matching import decode_filter, matches
from ledgerstone.rules.vectors import added, check_dimension, left
from tests.oracle.model.commits import Commit
from tests.oracle.model.embeddings import drop_vector, put_vector
from tests.oracle.model.rows import MemoryRow, OutboxRow
from tests.oracle.model.state import State, Tx


def put_memory(tx: Tx, command: PutMemory) -> Memory:
    """Insert or replace."""
    return _put(tx, command.tenant, command.memory)


def change_memories(tx: Tx, command: ChangeMemories) -> list[Memory | bool]:
    """Puts and deletes in order."""
    return [
        _put(tx, command.tenant, one)
        if isinstance(one, NewMemory)
        else _drop(tx, command.tenant, one.namespace, one.key)
        for one in command.changes
    ]


def remember_in_commit(commit: Commit) -> None:
    """The memories of a commit; where it may change its own session only, they wait in the
    outbox, checked already.
    """
    tx, command = commit.tx, commit.command
    if not tx.shared:
        _check_vectors(tx, command.tenant, command.memories)
    for memory in command.memories:
        if tx.shared:
            _put(tx, command.tenant, memory)
        else:
            n = tx.state.next_number("outbox", commit.number)
            tx.state.outbox.insert((commit.number, n), OutboxRow(tx.now_us, memory=memory))
    commit.effects["memories"] = [[one.namespace, one.key] for one in command.memories]


def _check_vectors(tx: Tx, tenant: str, memories: tuple[NewMemory, ...]) -> None:
    """InvalidValue as putting them one after the other would raise it."""
    spaces: dict[str, Space | None] = {}
    models: dict[str, str | None] = {}

    def space_of(model: str) -> Space | None:
        return spaces.setdefault(model, tx.state.spaces.get((tenant, model)))

    for new in memories:
        id = rules.vector_id(new.namespace, new.key)
        row = tx.state.embeddings.get((tenant, rules.KIND, id))
        old = models.setdefault(id, None if row is None else row.model)
        if new.vector is not None:
            space = space_of(new.model)
            if space is not None:
                check_dimension(new.model, space.dimension, space.count, new.vector)
            spaces[new.model] = added(space, new.model, new.vector, old == new.model)
        models[id] = None if new.vector is None else new.model
        was = None if old is None or old == models[id] else space_of(old)
        if was is not None:
            spaces[was.model] = left(was)


def _put(tx: Tx, tenant: str, new: NewMemory) -> Memory:
    key = (tenant, new.namespace, new.key)
    old = _live(tx, *key)
    if old is not None and new.if_absent:
        return _record(new.namespace, new.key, old)
    row = MemoryRow(
        value=new.value,
        ttl_us=new.ttl_us,
        created_us=tx.now_us if old is None else old.created_us,
        updated_us=tx.now_us,
        expires_us=rules.end_us(new.ttl_us, tx.now_us),
    )
    id = rules.vector_id(new.namespace, new.key)
    if new.vector is None:
        drop_vector(tx, tenant, rules.KIND, id)
    else:
        vector = NewEmbedding(id=id, model=new.model, vector=new.vector, namespace=new.namespace)
        put_vector(tx, tenant, rules.KIND, vector)
    _store(tx, key, row)
    return _record(new.namespace, new.key, row)


def _store(tx: Tx, key: tuple[str, str, str], row: MemoryRow | None) -> None:
    """Make the row this one, or none; the order of ends follows."""
    state, (tenant, namespace, name) = tx.state, key
    old = state.memories.get(key)
    if old is not None and old.expires_us is not None:
        state.memory_expiry.delete((tenant, old.expires_us, namespace, name))
    if row is not None:
        state.memories.put(key, row)
        if row.expires_us is not None:
            state.memory_expiry.insert((tenant, row.expires_us, namespace, name), None)
    elif old is not None:
        state.memories.delete(key)


def delete_memory(tx: Tx, command: DeleteMemory) -> bool:
    """Remove; whether there was one."""
    return _drop(tx, command.tenant, command.namespace, command.key)


def _drop(tx: Tx, tenant: str, namespace: str, key: str) -> bool:
    found = _live(tx, tenant, namespace, key)
    drop_vector(tx, tenant, rules.KIND, rules.vector_id(namespace, key))
    _store(tx, (tenant, namespace, key), None)
    return found is not None


def touch_memory(tx: Tx, command: TouchMemory) -> Memory | None:
    """Read, and let the time to live begin anew."""
    key = (command.tenant, command.namespace, command.key)
    row = _live(tx, *key)
    if row is None:
        return None
    if row.ttl_us is not None:
        row = replace(row, expires_us=rules.end_us(row.ttl_us, tx.now_us))
        _store(tx, key, row)
    return _record(command.namespace, command.key, row)


def sweep_memories(tx: Tx, command: SweepMemories) -> int:
    """Remove some that have ended."""
    ended: list[tuple[str, str]] = []
    for (_, expires_us, namespace, key), _ in tx.state.memory_expiry.scan((command.tenant,)):
        if len(ended) == command.limit or rules.is_alive(expires_us, tx.now_us):
            break
        ended.append((namespace, key))
    if command.dry_run:
        return len(ended)
    for namespace, key in ended:
        _drop(tx, command.tenant, namespace, key)
    return len(ended)


def get_memories(tx: Tx, query: GetMemories) -> list[Memory | None]:
    """Several by name."""
    rows = [(one, _live(tx, query.tenant, one.namespace, one.key)) for one in query.names]
    return [None if row is None else _record(one.namespace, one.key, row) for one, row in rows]


def search_memories(tx: Tx, query: SearchMemories) -> list[Memory]:
    """By namespace and key."""
    wanted = decode_filter(query.filter)
    enough = None if query.limit is None else query.offset + query.limit
    since: tuple[str, ...] = (query.namespace,)
    after = None if query.after is None else (query.after.namespace, query.after.key)
    if after is not None and after > since:
        since = after
    found: list[tuple[str, str, MemoryRow]] = []
    for namespace, key, row in _scan(tx, query.tenant, query.namespace, since):
        if len(found) == enough:
            break
        if after is not None and (namespace, key) <= after:
            continue
        if not wanted or matches(wanted, rules.read_value(key, row.value)):
            found.append((namespace, key, row))
    return [_record(*one) for one in found[query.offset :]]


def list_namespaces(tx: Tx, query: ListNamespaces) -> list[tuple[str, ...]]:
    """Those that hold something."""
    found: list[str] = []
    for namespace, _, _ in _scan(tx, query.tenant, query.prefix, (query.prefix,)):
        shown = namespaces.cut(namespace, query.max_depth)
        if found[-1:] != [shown] and namespaces.ends_with(namespace, query.suffix):
            found.append(shown)
    return [namespaces.split(one) for one in found[query.offset : query.offset + query.limit]]


def _scan(
    tx: Tx, tenant: str, prefix: str, since: tuple[str, ...]
) -> Iterator[tuple[str, str, MemoryRow]]:
    """At or below a namespace, in order, from a name on, without what has ended."""
    for (_, namespace, key), row in tx.state.memories.scan((tenant,), since=(tenant, *since)):
        if not namespace.startswith(prefix):
            return
        if rules.is_alive(row.expires_us, tx.now_us):
            yield namespace, key, row


def _live(tx: Tx, tenant: str, namespace: str, key: str) -> MemoryRow | None:
    row = tx.state.memories.get((tenant, namespace, key))
    return row if row is not None and rules.is_alive(row.expires_us, tx.now_us) else None


def _record(namespace: str, key: str, row: MemoryRow) -> Memory:
    times = (row.ttl_us, row.created_us, row.updated_us, row.expires_us)
    return rules.record(namespace, key, row.value, *times)


def rebuild(state: State) -> None:
    """The order of ends."""
    for (tenant, namespace, key), row in state.memories.scan():
        if row.expires_us is not None:
            state.memory_expiry.place((tenant, row.expires_us, namespace, key), None)
