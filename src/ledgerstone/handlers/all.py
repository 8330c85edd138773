"""Every handler there is: importing this module enters all of them."""

from __future__ import annotations

from ledgerstone.handlers import (
    artifacts,
    attachments,
    blobs,
    branches,
    budgets,
    claims,
    context,
    copies,
    dead_work,
    embeddings,
    ended_work,
    evidence,
    executions,
    feed,
    fences,
    interrupts,
    leases,
    memories,
    message_lists,
    messages,
    node_lists,
    node_reads,
    notes,
    purges,
    ready,
    recovery,
    run_lists,
    runs,
    session_lists,
    session_reads,
    sessions,
    stuck,
    take_work,
    tickets,
    time_travel,
    transfer_in,
    transfer_out,
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
    artifacts, attachments, blobs, branches, budgets, claims, context, copies, dead_work,
    embeddings, ended_work, evidence, executions, feed, fences, interrupts, leases, memories,
    message_lists, messages, node_lists, node_reads, notes, purges, ready, recovery, run_lists,
    runs, session_lists, session_reads, sessions, stuck, take_work, tickets, time_travel,
    transfer_in, transfer_out, turns, usage, usage_sums, vacuum, verify, verify_store, work,
)  # fmt: skip
