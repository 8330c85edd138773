"""Every handler there is: importing this module enters all of them."""

from __future__ import annotations

from ledgerstone.handlers import (
    artifacts,
    blobs,
    claims,
    context,
    copies,
    embeddings,
    evidence,
    executions,
    leases,
    memories,
    messages,
    node_lists,
    node_reads,
    notes,
    purges,
    ready,
    recovery,
    runs,
    session_reads,
    sessions,
    tickets,
    transfer_in,
    transfer_out,
    turn_reads,
    turns,
    usage,
    usage_sums,
    vacuum,
    verify,
    verify_store,
    work,
)
from ledgerstone.handlers.registry import HANDLERS

__all__ = ["HANDLERS"]

MODULES = (
    artifacts, blobs, claims, context, copies, embeddings, evidence, executions, leases,
    memories, messages, node_lists, node_reads, notes, purges, ready, recovery, runs,
    session_reads, sessions, tickets, transfer_in, transfer_out, turn_reads, turns, usage,
    usage_sums, vacuum, verify, verify_store, work,
)  # fmt: skip
