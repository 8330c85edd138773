"""`python -m bench`: time Ledgerstone against the floors, side by side, and say what held."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench import machine, table
from bench.measure import Row
from bench.stand import Stand
from bench.work import Work
from bench.workloads import WORKLOADS

SECONDS = 50.0
QUICK_SECONDS = 13.0
LEAST_SHARE = 0.3


class Report(msgspec.Struct, frozen=True):
    seed: int
    payload_bytes: float
    machine: machine.Machine
    seconds: float
    notes: list[str]
    rows: list[Row]


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    with tempfile.TemporaryDirectory(prefix="ledgerstone-bench-", dir=options.dir) as directory:
        seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
        report = asyncio.run(run(Path(directory), seed, options, seconds))
    if options.json:
        print(msgspec.json.encode(report).decode())
    else:
        show(report, plain=options.markdown)
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about 15 seconds instead of 60")
    parser.add_argument("--only", type=chosen, default=list(WORKLOADS), metavar="W1,W3")
    parser.add_argument("--seconds", type=float, help="for everything, building included")
    parser.add_argument("--seed", type=int, help="of the message texts and sizes")
    parser.add_argument("--dir", type=Path, help="where to write; it should be a real disk")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true", help="also on a terminal")
    return parser.parse_args(arguments)


def chosen(text: str) -> list[str]:
    names = [name.strip().upper() for name in text.split(",")]
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(WORKLOADS)}")
    return names


async def run(directory: Path, seed: int, options: argparse.Namespace, seconds: float) -> Report:
    only: list[str] = options.only
    start = time.monotonic()
    described = machine.describe(directory)
    work = Work(seed)
    stand = Stand(directory, work, quick=options.quick)
    rows: list[Row] = []
    try:
        await stand.build()
        left = max(seconds - (time.monotonic() - start), seconds * LEAST_SHARE)
        shares = sum(WORKLOADS[name][1] for name in only) or 1.0
        for name in only:
            workload, share = WORKLOADS[name]
            print(f"{name} ...", file=sys.stderr, flush=True)
            rows += await workload(stand, left * share / shares)
    finally:
        await stand.close()
    taken = time.monotonic() - start
    return Report(seed, work.payload_bytes, described, taken, stand.notes, rows)


def show(report: Report, *, plain: bool) -> None:
    table.show(report.rows, plain=plain)
    print(
        f"\n{report.machine}\n"
        f"seed {report.seed}; a turn is {report.payload_bytes:,.0f} B of JSON, sizes +-50 %; "
        f"{report.seconds:.0f} s in all; {'; '.join(report.notes)}\n"
        "Contenders take turns in every round. p10-p90 is over all samples; a ratio is the median "
        "of the rounds' own ratios, quiet the ratio of the best tenths (a slow disk hides the rest "
        "of a commit and draws ratios towards 1).\n"
        "unclear: the two ratios disagree about the bar, measure again on a quieter machine. "
        "Differences under 1.3x are noise on a shared machine."
    )
    if report.machine.filesystem in ("tmpfs", "ramfs"):
        print("WARNING: this is memory, not a disk; nothing here was durable. Use --dir.")


if __name__ == "__main__":
    sys.exit(main())
