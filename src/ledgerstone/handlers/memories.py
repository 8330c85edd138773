"""Memories: values by namespace and key. One that has ended looks absent, until the sweep."""

from __future__ import annotations

from typing import Any

from msgspec.structs import astuple, replace

from ledgerstone.commands import memories as commands
from ledgerstone.commands.embeddings import NewEmbedding
from ledgerstone.commands.memories import NewMemory
from ledgerstone.handlers.commits import Commit
from ledgerstone.handlers.embeddings import drop_vector, put_vectors
from ledgerstone.handlers.paging import first_fitting
from ledgerstone.handlers.registry import handles
from ledgerstone.records.memories import Memory
from ledgerstone.rules import memories as rules
from ledgerstone.rules import namespaces
from ledgerstone.rules.matching import decode_filter, matches
from ledgerstone.tables.memories import MEMORIES, MEMORIES_BY_EXPIRY, MemoryRow
from ledgerstone.tables.table import Key
from ledgerstone.tables.transaction import Tx

_PAGE_ROWS = 500


@handles(commands.PutMemory)
async def put_memory(tx: Tx, command: commands.PutMemory) -> Memory:
    return await _put(tx, command.tenant, command.memory)


@handles(commands.ChangeMemories)
async def change_memories(tx: Tx, command: commands.ChangeMemories) -> list[Memory | bool]:
    answers: list[Memory | bool] = []
    for one in command.changes:
        if isinstance(one, NewMemory):
            answers.append(await _put(tx, command.tenant, one))
        else:
            answers.append(await _drop(tx, command.tenant, one.namespace, one.key))
    return answers


async def remember_in_commit(tx: Tx, commit: Commit) -> None:
    """The memories of a commit."""
    command = commit.command
    for memory in command.memories:
        await _put(tx, command.tenant, memory)
    commit.effects["memories"] = [[one.namespace, one.key] for one in command.memories]


async def _put(tx: Tx, tenant: str, new: NewMemory) -> Memory:
    stored = await tx.get(MEMORIES, tenant, new.namespace, new.key)
    old = stored if _is_alive(tx, stored) else None
    if old is not None and new.if_absent:
        return _record(old)
    row = MemoryRow(
        tenant=tenant,
        namespace=new.namespace,
        key=new.key,
        value=new.value,
        ttl_us=new.ttl_us,
        created_us=tx.now_us if old is None else old.created_us,
        updated_us=tx.now_us,
        expires_us=rules.end_us(new.ttl_us, tx.now_us),
    )
    id = rules.vector_id(new.namespace, new.key)
    if new.vector is not None:
        vector = NewEmbedding(id=id, model=new.model, vector=new.vector, namespace=new.namespace)
        await put_vectors(tx, tenant, rules.KIND, (vector,))
    elif stored is not None:
        await drop_vector(tx, tenant, rules.KIND, id)
    tx.put(MEMORIES, row)
    return _record(row)


@handles(commands.DeleteMemory)
async def delete_memory(tx: Tx, command: commands.DeleteMemory) -> bool:
    return await _drop(tx, command.tenant, command.namespace, command.key)


async def _drop(tx: Tx, tenant: str, namespace: str, key: str) -> bool:
    """Remove a memory, also one that has ended; whether there was one that had not."""
    row = await tx.get(MEMORIES, tenant, namespace, key)
    if row is not None:
        await _remove(tx, tenant, namespace, key)
    return _is_alive(tx, row)


async def _remove(tx: Tx, tenant: str, namespace: str, key: str) -> None:
    await drop_vector(tx, tenant, rules.KIND, rules.vector_id(namespace, key))
    tx.delete(MEMORIES, tenant, namespace, key)


@handles(commands.TouchMemory)
async def touch_memory(tx: Tx, command: commands.TouchMemory) -> Memory | None:
    row = await tx.get(MEMORIES, command.tenant, command.namespace, command.key)
    if row is None or not _is_alive(tx, row):
        return None
    if row.ttl_us is not None:
        row = replace(row, expires_us=rules.end_us(row.ttl_us, tx.now_us))
        tx.put(MEMORIES, row)
    return _record(row)


@handles(commands.SweepMemories)
async def sweep_memories(tx: Tx, command: commands.SweepMemories) -> int:
    """Remove some that have ended, the first to end first."""
    ended = await tx.scan_columns(
        MEMORIES_BY_EXPIRY, ("namespace", "key"), command.tenant,
        before=(tx.now_us + 1,), limit=command.limit,
    )  # fmt: skip
    if not command.dry_run:
        for namespace, key in ended:
            await _remove(tx, command.tenant, namespace, key)
    return len(ended)


@handles(commands.GetMemories)
async def get_memories(tx: Tx, query: commands.GetMemories) -> list[Memory | None]:
    keys = [(query.tenant, name.namespace, name.key) for name in query.names]
    rows = await tx.get_many(MEMORIES, keys)
    return [_record(row) if row is not None and _is_alive(tx, row) else None for row in rows]


@handles(commands.SearchMemories)
async def search_memories(tx: Tx, query: commands.SearchMemories) -> list[Memory]:
    """By namespace and key; filters are judged page by page."""
    wanted = decode_filter(query.filter)
    enough = None if query.limit is None else query.offset + query.limit
    after, bounds = (query.namespace, ""), _below(query.namespace)
    if query.after is not None:
        after = max(after, (query.after.namespace, query.after.key))

    async def fitting(rows: list[MemoryRow]) -> list[MemoryRow]:
        alive = [row for row in rows if _is_alive(tx, row)]
        if not wanted:
            return alive
        return [row for row in alive if matches(wanted, rules.read_value(row.key, row.value))]

    found = await first_fitting(
        tx, MEMORIES.primary, (query.tenant,), fitting, enough,
        after=after, page_rows=_PAGE_ROWS, **bounds,
    )  # fmt: skip
    return [_record(row) for row in found[query.offset :]]


@handles(commands.ListNamespaces)
async def list_namespaces(tx: Tx, query: commands.ListNamespaces) -> list[tuple[str, ...]]:
    """Names of many namespaces come with one page; a long namespace is skipped, not walked."""
    found: list[str] = []
    enough = query.offset + query.limit
    columns, bounds = ("namespace", "key", "expires_us"), _below(query.prefix)
    after: Key = (query.prefix, "")
    while len(found) < enough:
        rows = await tx.scan_columns(
            MEMORIES.primary, columns, query.tenant, after=after, limit=_PAGE_ROWS, **bounds
        )
        for namespace, key, expires_us in rows:
            if (namespace, key)[: len(after)] <= after:
                continue
            if not rules.is_alive(expires_us, tx.now_us):
                after = (namespace, key)
            elif namespaces.ends_with(namespace, query.suffix):
                found.append(namespaces.cut(namespace, query.max_depth))
                after = _behind(namespace, query.max_depth)
            else:
                after = (namespace,)
        if len(rows) < _PAGE_ROWS:
            break
    return [namespaces.split(one) for one in found[query.offset : enough]]


def _below(namespace: str) -> dict[str, Any]:
    """The upper bound of a scan of a namespace and all below it."""
    end = namespaces.end_of(namespace)
    return {} if end is None else {"before": (end,)}


def _behind(namespace: str, depth: int | None) -> Key:
    """Where a scan goes on behind everything that is cut to the same namespace as this one."""
    bound = namespaces.behind(namespace, depth)
    return (bound["after"],) if "after" in bound else (bound["first"], "")


def _is_alive(tx: Tx, row: MemoryRow | None) -> bool:
    return row is not None and rules.is_alive(row.expires_us, tx.now_us)


def _record(row: MemoryRow) -> Memory:
    _, *columns = astuple(row)
    return rules.record(*columns)
