"""Which function carries out which command and answers which query."""

from __future__ import annotations

from typing import Any

from ledgerstone.commands import Command, Query
from ledgerstone.commands import attachments as attachment_commands
from ledgerstone.commands import executions as execution_commands
from ledgerstone.commands import feed as feed_commands
from ledgerstone.commands import leases as lease_commands
from ledgerstone.commands import nodes as node_commands
from ledgerstone.commands import runs as run_commands
from ledgerstone.commands import sessions as session_commands
from ledgerstone.commands import tickets as ticket_commands
from ledgerstone.commands import turns as turn_commands
from ledgerstone.commands import work as work_commands
from ledgerstone.model import (
    answers,
    attachments,
    branches,
    claims,
    copies,
    dead_work,
    executions,
    feed,
    leases,
    messages,
    nodes,
    notes,
    purges,
    ready,
    recovery,
    run_lists,
    runs,
    session_lists,
    sessions,
    stuck,
    take_work,
    tickets,
    time_travel,
    turns,
    vacuum,
    verify,
    work,
)
from ledgerstone.model.state import Handler

WRITES: dict[type[Command[Any]], Handler] = {
    session_commands.CreateSession: sessions.create_session,
    session_commands.PutSession: sessions.put_session,
    session_commands.GetOrCreateSession: sessions.get_or_create_session,
    session_commands.UpdateSession: sessions.update_session,
    session_commands.DeleteSession: sessions.delete_session,
    session_commands.RestoreSession: sessions.restore_session,
    session_commands.PurgeSession: purges.purge_session,
    session_commands.SweepPurged: purges.sweep_purged,
    session_commands.CopySession: copies.copy_session,
    turn_commands.CommitTurn: turns.commit_turn,
    node_commands.AnnotateNodes: notes.annotate_nodes,
    node_commands.DropNotes: notes.drop_notes,
    node_commands.VacuumSession: vacuum.vacuum_session,
    lease_commands.TakeLease: leases.take_lease,
    lease_commands.RenewLease: leases.renew_lease,
    lease_commands.ReleaseLease: leases.release_lease,
    lease_commands.BreakLease: leases.break_lease,
    run_commands.PutRun: runs.put_run,
    attachment_commands.RecordIntent: attachments.record_intent,
    attachment_commands.ForgetAttachment: attachments.forget_attachment,
    run_commands.UpdateRun: runs.update_run,
    ticket_commands.ResolveTicket: tickets.resolve_ticket,
    ticket_commands.WithdrawTicket: tickets.withdraw_ticket,
    ticket_commands.ExpireTickets: tickets.expire_tickets,
    execution_commands.StartExecution: executions.start_execution,
    execution_commands.FinishExecution: executions.finish_execution,
    execution_commands.RetryExecution: executions.retry_execution,
    work_commands.EnqueueWork: work.enqueue_work,
    work_commands.ClaimWork: claims.claim_work,
    work_commands.TakeWork: take_work.take_work,
    work_commands.RenewClaim: claims.renew_claim,
    work_commands.AbandonClaim: claims.abandon_claim,
    work_commands.FailClaim: claims.fail_claim,
    work_commands.CancelWork: work.cancel_work,
    work_commands.ReplayWork: dead_work.replay_work,
    work_commands.DropDead: dead_work.drop_dead,
}

READS: dict[type[Query[Any]], Handler] = {
    session_commands.GetSession: sessions.get_session,
    session_commands.GetHead: sessions.get_head,
    session_commands.GetPicker: sessions.get_picker,
    session_commands.GetDocument: sessions.get_document,
    session_commands.ListSessions: session_lists.list_sessions,
    session_commands.CountSessions: session_lists.count_sessions,
    session_commands.ReadSessionAt: time_travel.read_session_at,
    turn_commands.GetTurn: answers.get_turn,
    turn_commands.ListTurns: answers.list_turns,
    turn_commands.VerifySession: verify.verify_session,
    turn_commands.VerifyStore: verify.verify_store,
    node_commands.ReadMessages: messages.read_messages,
    node_commands.CountMessages: messages.count_messages,
    node_commands.ListMessages: messages.list_messages,
    node_commands.ReadRange: messages.read_range,
    node_commands.GetMessage: messages.get_message,
    node_commands.GetVersions: messages.get_versions,
    node_commands.GetNode: nodes.get_node,
    node_commands.FindNodes: nodes.find_nodes,
    node_commands.ListNodes: nodes.list_nodes,
    node_commands.ReadPath: nodes.read_path,
    node_commands.GetValues: nodes.get_values,
    node_commands.GetNotes: notes.get_notes,
    node_commands.ListDrafts: notes.list_drafts,
    node_commands.ListBranches: branches.list_branches,
    node_commands.DiffBranches: branches.diff_branches,
    lease_commands.GetLease: leases.get_lease,
    run_commands.GetRun: runs.get_run,
    run_commands.LatestRun: runs.latest_run,
    attachment_commands.ListUncommitted: attachments.list_uncommitted,
    attachment_commands.GetAttachment: attachments.get_attachment,
    run_commands.ListRuns: run_lists.list_runs,
    run_commands.GetRunTree: run_lists.get_run_tree,
    ticket_commands.GetTicket: tickets.get_ticket,
    ticket_commands.ListTickets: tickets.list_tickets,
    execution_commands.GetExecution: executions.get_execution,
    execution_commands.ListExecutions: executions.list_executions,
    execution_commands.GetRecovery: recovery.get_recovery,
    execution_commands.ListLost: recovery.list_lost,
    work_commands.ListWork: work.list_work,
    work_commands.PeekWork: ready.peek_work,
    work_commands.ListDead: dead_work.list_dead,
    work_commands.ExplainWork: stuck.explain_work,
    feed_commands.ReadFeed: feed.read_feed,
    feed_commands.FeedEnd: feed.feed_end,
}
