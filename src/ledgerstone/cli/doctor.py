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
from ledgerstone.cli.options import AsJson, StoreUrl, reading, shown
from ledgerstone.cli.output import print_json, print_line, size, visible
from ledgerstone.records.reports import Capabilities, Health

EXAMPLE = "Example: ledgerstone doctor --store agent.db"
NAME_CHARS = 14
POWER = "power"
MEANINGS = {
    POWER: "what was acknowledged survives a power cut",
    "process": "what was acknowledged survives a crash of the program, not a power cut",
    "none": "nothing survives the end of the process",
}


Whose = Annotated[
    str | None,
    typer.Option(
        "--tenant", metavar="NAME", help="Count only this tenant.", show_default="all tenants"
    ),
]


def run(*, store: StoreUrl = None, tenant: Whose = None, as_json: AsJson = False) -> None:
    """Say how a store is doing.

    Versions, the durability really in force, sizes, counts, warnings, and what to do next.
    """
    with reading(store, None) as opened:
        health = opened.admin.health()
        names = opened.admin.tenants() if tenant is None else [tenant]
        tenants = {name: opened.for_tenant(name).sessions.count(deleted=True) for name in names}
        facts = _facts(shown(str(store)), opened, health, tenants)
    if as_json:
        print_json(facts)
    else:
        _print(facts)
    raise typer.Exit(0 if health.ok else DEFECTS)


def _facts(url: str, store: Store, health: Health, tenants: dict[str, int]) -> dict[str, Any]:
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
        "sizes_bytes": health.sizes_bytes,
        "counts": health.counts,
        "warnings": health.warnings,
        "next_steps": next_steps(health, store.capabilities, tenants),
    }


def next_steps(health: Health, capabilities: Capabilities, tenants: dict[str, int]) -> list[str]:
    """What a person could do now, the most urgent first."""
    steps = []
    if not health.ok:
        steps.append("run `ledgerstone verify` and copy the store before anything else")
    if health.durability != POWER and capabilities.persistent:
        steps.append('open the store with durability="power" to survive a power cut')
    if health.warnings:
        steps.append("see the warnings above")
    if not any(tenants.values()):
        steps.append("the store is empty: `ledgerstone demo` shows what it is for")
    return steps or ["nothing to do; `ledgerstone verify` checks every hash"]


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
    if title == "counts":
        print_line()


run.__name__ = "doctor"
