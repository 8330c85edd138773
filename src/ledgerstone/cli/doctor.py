"""`ledgerstone doctor`: versions, durability, sizes, warnings, what waits, and what to do next."""

from __future__ import annotations

import platform
from importlib.metadata import version
from itertools import islice
from typing import Annotated, Any

import apsw
import msgspec
import typer

from ledgerstone import Execution, Store
from ledgerstone.cli.executions import needs_decision
from ledgerstone.cli.failures import DEFECTS
from ledgerstone.cli.options import AsJson, StoreUrl, option, reading, seconds, shown, switch
from ledgerstone.cli.output import plural, print_facts, print_json, print_line, size
from ledgerstone.clock import US_PER_S, SystemClock
from ledgerstone.intake.checks import LIMIT_MAX
from ledgerstone.records.reports import Capabilities, Health, StoreStats

EXAMPLE = "Example: ledgerstone doctor --store agent.db --strict"
NAME_CHARS = 14
DEFAULT = "default"
NAMES_MAX = 5
"""How many tenants, and sessions with old drafts, are named."""
SESSIONS_MAX = 10_000
"""In how many sessions of a tenant old drafts are looked for, the newest first."""
POWER = "power"
MEANINGS = {
    POWER: "what was acknowledged survives a power cut",
    "process": "what was acknowledged survives a crash of the program, not a power cut",
    "none": "nothing survives the end of the process",
}
COUNTED = {
    "stuck": (
        "session",
        "with due work and no worker",
        "start a worker; `ledgerstone work --stuck` lists them",
    ),
    "dead": (
        "dead letter",
        "",
        "`ledgerstone work --dead`, then `ledgerstone work replay BATCH`",
    ),
    "parked": (
        "batch",
        "parked until a tool call is decided",
        "`ledgerstone executions`, then finish, fail or retry the call",
    ),
    "unknown": (
        "tool call",
        "of unknown outcome",
        "`ledgerstone executions`, then finish, fail or retry it",
    ),
    "drafts": (
        "old draft",
        "",
        "`ledgerstone show SESSION`, then `turn.adopt` or `drafts.discard` in a program",
    ),
}
"""What is counted of each tenant: its noun, more words, and what to do about it."""

Whose = Annotated[
    str | None,
    option("--tenant", "NAME", "Count only this tenant.", show_default="all tenants"),
]
Strict = Annotated[
    bool, switch("--strict", "Exit code 1 when there is a warning, or something waits.")
]
OlderThan = Annotated[
    str,
    option(
        "--older-than", "TIME", "Due work and drafts count when they are older: 90s, 15m, 1h, 7d."
    ),
]


class Waiting(msgspec.Struct, kw_only=True):
    """What waits for somebody; of deleted sessions only the dead letters count.

    `stuck`: sessions whose work is due, and no worker has come. `dead`: dead letters. `parked`:
    batches that wait for a decision about an execution. `unknown`: executions that nobody is left
    to finish. `drafts`: unfinished messages. `draft_sessions`: where those are. `at_least`: which
    of these were not counted to the end.
    """

    stuck: int = 0
    dead: int = 0
    parked: int = 0
    unknown: int = 0
    drafts: int = 0
    draft_sessions: list[str] = []
    at_least: list[str] = []


def run(
    *,
    store: StoreUrl = None,
    tenant: Whose = None,
    strict: Strict = False,
    older_than: OlderThan = "1h",
    as_json: AsJson = False,
) -> None:
    """Say how a store is doing.

    Versions, the durability really in force, sizes, counts, warnings; what does not go on by
    itself, and what to do next. With --strict the exit code says it too, for a timer or a probe.
    """
    old_s = seconds(older_than)
    with reading(store, None) as opened:
        health, stats = opened.admin.health(), opened.admin.stats()
        names = opened.admin.tenants() if tenant is None else [tenant]
        handles = {name: opened.for_tenant(name) for name in names}
        tenants = {name: one.sessions.count(deleted=True) for name, one in handles.items()}
        # A damaged store is not counted: what is damaged could be missing in any sum.
        counted = handles if health.ok else {}
        found = {name: waiting(one, old_s) for name, one in counted.items()}
        facts = _facts(shown(str(store)), opened, (health, stats), tenants, found)
    if as_json:
        print_json(facts)
    else:
        _print(facts)
    unsettled = health.warnings or any(facts["waiting"].values())
    raise typer.Exit(DEFECTS if not health.ok or (strict and unsettled) else 0)


def waiting(store: Store, older_than_s: float) -> Waiting:
    """Count it; due work, drafts and calls without a lease count when they are so old."""
    before_us = SystemClock().now_us() - round(older_than_s * US_PER_S)
    found = Waiting(dead=store.work.dead(limit=1, total=True).total or 0)
    _count_stuck(store, before_us, found)
    _count_undecided(store, before_us, found)
    _count_drafts(store, before_us, found)
    return found


def _count_stuck(store: Store, before_us: int, found: Waiting) -> None:
    reasons = store.work.stuck(limit=LIMIT_MAX)
    found.stuck = sum(one.reason == "ready" and (one.since_us or 0) <= before_us for one in reasons)
    if len(reasons) == LIMIT_MAX:
        found.at_least.append("stuck")


def _count_undecided(store: Store, before_us: int, found: Waiting) -> None:
    begun: dict[str, list[Execution]] = {}
    for one in store.executions.unresolved():
        begun.setdefault(one.session, []).append(one)
    for id, executions in begun.items():
        session = store.sessions.get(id)
        if session is None or session.deleted_us is not None:
            continue
        # Work is parked only while the execution it met has no outcome.
        found.parked += sum(batch.waiting_for is not None for batch in store.work.list(id))
        found.unknown += sum(
            needs_decision(one) and (one.status == "unknown" or one.started_us <= before_us)
            for one in executions
        )


def _count_drafts(store: Store, before_us: int, found: Waiting) -> None:
    sessions = iter(store.sessions.iter())
    for session in islice(sessions, SESSIONS_MAX):
        old = sum(draft.updated_us <= before_us for draft in store.drafts.list(session))
        found.drafts += old
        if old:
            found.draft_sessions.append(session.id)
    if next(sessions, None) is not None:
        found.at_least.append("drafts")


def _facts(
    url: str,
    store: Store,
    told: tuple[Health, StoreStats],
    tenants: dict[str, int],
    found: dict[str, Waiting],
) -> dict[str, Any]:
    health, stats = told
    return {
        "ok": health.ok,
        "versions": {
            "ledgerstone": version("ledgerstone"),
            "python": platform.python_version(),
            "sqlite": apsw.sqlite_lib_version(),
            "apsw": apsw.apsw_version(),
            "msgspec": msgspec.__version__,
        },
        "store": url,
        "backend": health.backend,
        "schema": health.schema,
        "durability": health.durability,
        "capabilities": store.capabilities,
        "tenants": tenants,
        "sizes_bytes": stats.sizes_bytes,
        "counts": stats.counts,
        "waiting": {name: _count(found, name) for name in (COUNTED if health.ok else ())},
        "at_least": [name for name in COUNTED if _is_least(found, name)],
        "waiting_of_tenants": {name: one for name, one in found.items() if _waits(one)},
        "warnings": health.warnings,
        "next_steps": [
            *next_steps(health, store.capabilities, tenants),
            *waiting_steps(found),
        ]
        or ["nothing to do; `ledgerstone verify` checks every hash"],
    }


def next_steps(health: Health, capabilities: Capabilities, tenants: dict[str, int]) -> list[str]:
    """What a person could do about the store, the most urgent first."""
    steps = []
    if not health.ok:
        steps.append("run `ledgerstone verify` and copy the store before anything else")
    if health.durability != POWER and capabilities.persistent:
        steps.append('open the store with durability="power" to survive a power cut')
    if health.warnings:
        steps.append("see the warnings above")
    if not any(tenants.values()):
        steps.append("the store is empty: `ledgerstone demo` shows what it is for")
    return steps


def waiting_steps(found: dict[str, Waiting]) -> list[str]:
    """What a person could do about what waits, and whose it is."""
    steps = []
    for name, (noun, more, what_to_do) in COUNTED.items():
        owners = [tenant for tenant, one in found.items() if getattr(one, name)]
        if not owners:
            continue
        advice = what_to_do
        if name == "drafts":
            sessions = [id for tenant in owners for id in found[tenant].draft_sessions]
            advice += f" (in {', '.join(sessions[:NAMES_MAX])})"
        if owners != [DEFAULT]:
            advice += f"; --tenant {', '.join(owners[:NAMES_MAX])}"
        least = "at least " if _is_least(found, name) else ""
        counted = f"{least}{plural(_count(found, name), noun)} {more}".rstrip()
        steps.append(f"{counted}: {advice}")
    return steps


def _count(found: dict[str, Waiting], name: str) -> int:
    return sum(getattr(one, name) for one in found.values())


def _is_least(found: dict[str, Waiting], name: str) -> bool:
    """Whether there may be more than was counted."""
    return any(name in one.at_least for one in found.values())


def _waits(one: Waiting) -> bool:
    return any(getattr(one, name) for name in COUNTED)


def _print(facts: dict[str, Any]) -> None:
    durability = facts["durability"]
    place = {
        "place": facts["store"],
        "backend": f"{facts['backend']}, schema {facts['schema']}",
        "durability": f"{durability}: {MEANINGS.get(durability, 'unknown')}",
        "sessions": _sessions(facts["tenants"]),
    }
    least = dict.fromkeys(facts["at_least"], " or more")
    counted = {n: f"{count}{least.get(n, '')}" for n, count in facts["waiting"].items()}
    print_facts(facts["versions"], NAME_CHARS)
    for title, group in {
        "store": place,
        "sizes": {name: size(count) for name, count in facts["sizes_bytes"].items()},
        "counts": facts["counts"],
        "waiting": counted,
    }.items():
        print_line()
        print_line(title, "bold")
        print_facts(group, NAME_CHARS)
    print_line()
    for warning in facts["warnings"]:
        print_line(f"warning: {warning}", "yellow")
    for step in facts["next_steps"]:
        print_line(f"next: {step}", "bold")


def _sessions(tenants: dict[str, int]) -> str:
    counts = [f"{count} of tenant {name}" for name, count in tenants.items()]
    return ", ".join(counts) or "none"
