"""Memories: values by namespace and key."""

from __future__ import annotations

from ledgerstone.commands.embeddings import NewEmbedding
from ledgerstone.commands.memories import (
    ChangeMemories,
    DeleteMemory,
    GetMemories,
    ListNamespaces,
    MemoryName,
    NewMemory,
    PutMemory,
    SearchMemories,
    SweepMemories,
    TouchMemory,
)
from ledgerstone.records.memories import Memory
from ledgerstone.rules import memories as rules
from ledgerstone.rules import namespaces
from ledgerstone.rules.matching import decode_filter, matches
from ledgerstone.sql.commits import Commit
from ledgerstone.sql.embeddings import Spaces
from ledgerstone.sql.tx import Row, Tx

_SCAN_ROWS = 500


async def put_memory(tx: Tx, command: PutMemory) -> Memory:
    """Insert or replace."""
    spaces = Spaces(tx, command.tenant)
    stored = await _put(tx, spaces, command.memory)
    await spaces.save()
    return stored


async def change_memories(tx: Tx, command: ChangeMemories) -> list[Memory | bool]:
    """Puts and deletes in order."""
    spaces = Spaces(tx, command.tenant)
    answers: list[Memory | bool] = []
    for one in command.changes:
        if isinstance(one, NewMemory):
            answers.append(await _put(tx, spaces, one))
        else:
            answers.append(await _drop(tx, spaces, one.namespace, one.key))
    await spaces.save()
    return answers


async def remember_in_commit(tx: Tx, commit: Commit) -> None:
    """The memories of a commit."""
    spaces = Spaces(tx, commit.command.tenant)
    for memory in commit.command.memories:
        await _put(tx, spaces, memory)
    await spaces.save()
    commit.effects["memories"] = [[one.namespace, one.key] for one in commit.command.memories]


async def _put(tx: Tx, spaces: Spaces, new: NewMemory) -> Memory:
    key = (spaces.tenant, new.namespace, new.key)
    old = await _find(tx, spaces.tenant, new.namespace, new.key)
    if old is not None and new.if_absent:
        return old
    created_us = tx.now_us if old is None else old.created_us
    ends_us = rules.end_us(new.ttl_us, tx.now_us)
    times = (new.ttl_us, created_us, tx.now_us, ends_us)
    id = rules.vector_id(new.namespace, new.key)
    if new.vector is None:
        await spaces.drop(rules.KIND, id)
    else:
        row = NewEmbedding(id=id, model=new.model, vector=new.vector, namespace=new.namespace)
        await spaces.put(rules.KIND, row)
    await tx.run("put_memory", *key, new.value, *times)
    return rules.record(new.namespace, new.key, new.value, *times)


async def delete_memory(tx: Tx, command: DeleteMemory) -> bool:
    """Remove; whether there was one."""
    spaces = Spaces(tx, command.tenant)
    found = await _drop(tx, spaces, command.namespace, command.key)
    await spaces.save()
    return found


async def _drop(tx: Tx, spaces: Spaces, namespace: str, key: str) -> bool:
    found = await tx.one("get_memory", spaces.tenant, namespace, key, tx.now_us)
    await spaces.drop(rules.KIND, rules.vector_id(namespace, key))
    await tx.run("delete_memory", spaces.tenant, namespace, key)
    return found is not None


async def touch_memory(tx: Tx, command: TouchMemory) -> Memory | None:
    """Read, and let the time to live begin anew."""
    key = (command.tenant, command.namespace, command.key)
    found = await _find(tx, *key)
    if found is None or found.ttl_us is None:
        return found
    await tx.run("touch_memory", *key, rules.end_us(found.ttl_us, tx.now_us))
    return await _find(tx, *key)


async def sweep_memories(tx: Tx, command: SweepMemories) -> int:
    """Remove some that have ended."""
    spaces = Spaces(tx, command.tenant)
    ended = await tx.all("ended_memories", command.tenant, tx.now_us, command.limit)
    if command.dry_run:
        return len(ended)
    for namespace, key in ended:
        await _drop(tx, spaces, namespace, key)
    await spaces.save()
    return len(ended)


async def get_memories(tx: Tx, query: GetMemories) -> list[Memory | None]:
    """Several by name."""
    return [await _find(tx, query.tenant, name.namespace, name.key) for name in query.names]


async def _find(tx: Tx, tenant: str, namespace: str, key: str) -> Memory | None:
    row = await tx.one("get_memory", tenant, namespace, key, tx.now_us)
    return None if row is None else rules.record(*row)


async def search_memories(tx: Tx, query: SearchMemories) -> list[Memory]:
    """By namespace and key; filters are judged here, chunk by chunk, as on every backend."""
    wanted = decode_filter(query.filter)
    enough = None if query.limit is None else query.offset + query.limit
    found: list[Row] = []
    after = query.after
    while enough is None or len(found) < enough:
        rows = await _scan(tx, query, after)
        # A record is made of what is handed out only: most of what is looked at is not.
        found += [
            row for row in rows if not wanted or matches(wanted, rules.read_value(row[1], row[2]))
        ]
        if len(rows) < _SCAN_ROWS:
            break
        after = MemoryName(rows[-1][0], rows[-1][1])
    return [rules.record(*row) for row in found[query.offset : enough]]


async def _scan(tx: Tx, query: SearchMemories, after: MemoryName | None) -> list[Row]:
    # One lower bound, not two: the planner would have to guess which of them is the better.
    behind = after is not None and after.namespace >= query.namespace
    return await tx.pick(
        "scan_memories",
        tenant=query.tenant,
        first=None if behind else query.namespace,
        after_namespace=after.namespace if behind and after else None,
        after_key=after.key if behind and after else None,
        last=namespaces.end_of(query.namespace),
        now=tx.now_us,
        limit=_SCAN_ROWS,
    )


async def list_namespaces(tx: Tx, query: ListNamespaces) -> list[tuple[str, ...]]:
    """One seek per namespace, or per cut one: not a look at every memory."""
    found: list[str] = []
    bounds: dict[str, str | None] = {"first": query.prefix}
    last = namespaces.end_of(query.prefix)
    while len(found) < query.offset + query.limit:
        rows = await tx.pick(
            "next_namespace", tenant=query.tenant, now=tx.now_us, last=last, **bounds
        )
        if not rows:
            break
        namespace = rows[0][0]
        bounds = {"after": namespace}
        if namespaces.ends_with(namespace, query.suffix):
            found.append(namespaces.cut(namespace, query.max_depth))
            bounds = namespaces.behind(namespace, query.max_depth)
    return [namespaces.split(one) for one in found[query.offset :]]
