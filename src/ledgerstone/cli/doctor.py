"""`ledgerstone doctor`: versions, durability, sizes, warnings, and what to do about them."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Annotated, Any

import apsw
import msgspec
import typer

from ledgerstone import Store
from ledgerstone.cli.failures import DEFECTS
from ledgerstone.cli.gc import seconds
from ledgerstone.cli.options import AsJson, StoreUrl, reading, shown
from ledgerstone.cli.output import plural, print_json, print_line, size, visible
from ledgerstone.cli.waiting import Waiting, waiting
from ledgerstone.records.reports import Capabilities, Health, StoreStats

EXAMPLE = "Example: ledgerstone doctor --store agent.db --strict"
NAME_CHARS = 14
DEFAULT = "default"
NAMES_MAX = 5
"""How many tenants, and sessions with old drafts, are named."""
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
    typer.Option(
        "--tenant", metavar="NAME", help="Count only this tenant.", show_default="all tenants"
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Exit code 1 when there is a warning, or something waits."),
]
OlderThan = Annotated[
    str,
    typer.Option(
        "--older-than",
        metavar="TIME",
        help="Due work and drafts count when they are older: 90s, 15m, 1h, 7d.",
    ),
]


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
    _print_group("", facts["versions"])
    durability = facts["durability"]
    _print_group(
        "store",
        {
            "place": facts["store"],
            "backend": f"{facts['backend']}, schema {facts['schema']}",
            "durability": f"{durability}: {MEANINGS.get(durability, 'unknown')}",
            "sessions": _sessions(facts["tenants"]),
        },
    )
    _print_group("sizes", {name: size(count) for name, count in facts["sizes_bytes"].items()})
    _print_group("counts", facts["counts"])
    least = dict.fromkeys(facts["at_least"], " or more")
    _print_group(
        "waiting", {n: f"{count}{least.get(n, '')}" for n, count in facts["waiting"].items()}
    )
    for warning in facts["warnings"]:
        print_line(f"warning: {visible(warning)}", "yellow")
    for step in facts["next_steps"]:
        print_line(f"next: {step}", "bold")


def _sessions(tenants: dict[str, int]) -> str:
    counts = [f"{count} of tenant {name}" for name, count in tenants.items()]
    return ", ".join(counts) or "none"


def _print_group(title: str, facts: dict[str, Any]) -> None:
    if title:
        print_line()
        print_line(title, "bold")
    for name, value in facts.items():
        print_line(f"{name:<{NAME_CHARS}}{visible(str(value))}")
    if title == "waiting":
        print_line()


run.__name__ = "doctor"
