"""Whole pictures of a session, each from one snapshot where one is enough."""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.api.handle import AsyncHandle
from ledgerstone.codec import decode_json, decode_struct
from ledgerstone.commands.nodes import GetValues, ListNodes, ReadPath
from ledgerstone.commands.sessions import GetDocument, GetHead
from ledgerstone.errors import Corrupt, InvalidValue, NotSupported
from ledgerstone.records.nodes import Node
from ledgerstone.records.sessions import Graph, Head
from ledgerstone.records.state import CHECKPOINT_SCHEMA, SessionState, check_schema
from ledgerstone.records.turns import Checkpoint, HydratedCheckpoint

SCOPES = ("path", "graph")
ALL_NODES = 2**31 - 1

_manifests = msgspec.json.Decoder(Checkpoint)


async def load_state(
    handle: AsyncHandle, session: str, scope: str, leaf: str | None
) -> SessionState | None:
    """Head, graph and checkpoint of a session; None before its first commit."""
    if scope not in SCOPES:
        raise NotSupported(f"read scope {scope!r}", hint=f"use {' or '.join(SCOPES)}")
    if scope == "graph" and leaf is not None:
        raise InvalidValue("leaf", "the whole graph has no other leaf than its own")
    tenant = handle.tenant
    nodes = (
        ReadPath(tenant=tenant, session=session, at=leaf)
        if scope == "path"
        else ListNodes(tenant=tenant, session=session, order="ord", limit=ALL_NODES)
    )
    document = GetDocument(tenant=tenant, session=session, name="checkpoint")
    head, found, manifest = await handle.backend.aread(
        (GetHead(tenant=tenant, id=session), nodes, document)
    )
    if head is None:
        return None
    checkpoint = await _hydrate(handle, session, manifest)
    return SessionState.from_head(head, _graph(head, found, leaf), checkpoint)


def _graph(head: Head, nodes: list[Node], leaf: str | None) -> Graph:
    if leaf is None:
        return Graph(nodes, head.effective_leaf)
    if not nodes or nodes[-1].id != leaf:
        raise InvalidValue("leaf", f"{leaf!r} is no live node of this session")
    return Graph(nodes, leaf)


async def _hydrate(
    handle: AsyncHandle, session: str, data: bytes | None
) -> HydratedCheckpoint | None:
    """The checkpoint with its values; a reference that was never stored stays a reference."""
    if data is None:
        return None
    try:
        manifest = decode_struct(_manifests, data)
    except (ValueError, msgspec.ValidationError) as error:
        raise Corrupt("documents", session, "checkpoint", str(error)) from None
    check_schema("checkpoint", manifest.schema, CHECKPOINT_SCHEMA)
    wanted = (manifest.tool_state, manifest.plugins, manifest.execution)
    digests = tuple(digest for digest in wanted if digest is not None)
    values = await handle.ask(GetValues(tenant=handle.tenant, session=session, digests=digests))
    return HydratedCheckpoint(
        turn_state=manifest.turn_state,
        tool_state_ref=manifest.tool_state,
        tool_state=_json(values, manifest.tool_state, session),
        plugins_ref=manifest.plugins,
        plugins=_json(values, manifest.plugins, session),
        plugins_revision=manifest.plugins_revision,
        execution_ref=manifest.execution,
        execution=None if manifest.execution is None else values.get(manifest.execution),
    )


def _json(values: dict[str, bytes], digest: str | None, session: str) -> Any:
    if digest is None or digest not in values:
        return None
    try:
        return decode_json(values[digest])
    except ValueError as error:
        raise Corrupt("values", f"{session}/{digest}", "data", str(error)) from None
