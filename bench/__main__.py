"""`python -m bench`: time Ledgerstone, floors and peers side by side, and say what held."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from bench import machine, publish, table
from bench.adapters.stand import AdapterStand
from bench.adapters.workloads import WORKLOADS as OF_ADAPTERS
from bench.postgres.stand import PostgresStand
from bench.postgres.workloads import WORKLOADS as ON_POSTGRES
from bench.remote import ContenderFailed
from bench.report import Report
from bench.sizes import FULL, QUICK, TINY, Sizes
from bench.stand import Stand
from bench.work import Work
from bench.workloads import WORKLOADS


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    with tempfile.TemporaryDirectory(prefix="ledgerstone-bench-", dir=options.dir) as directory:
        report = run(Path(directory), seed, options)
    if options.json:
        print(msgspec.json.encode(report).decode())
    else:
        table.show(report.rows, plain=options.markdown)
        print("\n" + "\n".join([*report.remarks(), *report.peer_lines()]))
    if options.write is not None:
        publish.write(report, options.write)
    return 1 if report.failures else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    workloads = "\n".join(f"  {name:4} {one.title}" for name, one in KNOWN.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog="workloads (W and RSS on SQLite, P on a throwaway PostgreSQL, A of the adapters on "
        f"both):\n{workloads}\n\n"
        "All of them take about twenty-five minutes; --quick takes about five.\n--only sqlite, "
        "--only postgres and --only adapters choose a part. Messages about progress go to stderr.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="about five minutes; smaller stores")
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", type=chosen, default=list(NAMES), metavar="W1,P3,RSS")
    parser.add_argument("--no-peers", action="store_true", help="floors and Ledgerstone only")
    parser.add_argument("--seconds", type=float, help="for measuring; building comes on top")
    parser.add_argument("--seed", type=int, help="of the message texts and sizes")
    parser.add_argument("--dir", type=Path, help="where to write; it should be a real disk")
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    parser.add_argument("--markdown", action="store_true", help="also on a terminal")
    parser.add_argument(
        "--write",
        nargs="?",
        const=publish.PAGE,
        type=Path,
        metavar="PAGE",
        help=f"put table and chart into {publish.PAGE.name} and {publish.CHART.name}",
    )
    return parser.parse_args(arguments)


KNOWN: Final[dict[str, Any]] = {**WORKLOADS, **ON_POSTGRES, **OF_ADAPTERS}
NAMES: Final = tuple(KNOWN)
PARTS: Final = {
    "SQLITE": tuple(WORKLOADS),
    "POSTGRES": tuple(ON_POSTGRES),
    "ADAPTERS": tuple(OF_ADAPTERS),
}


def chosen(text: str) -> list[str]:
    words = [word.strip().upper() for word in text.split(",")]
    names = [name for word in words for name in PARTS.get(word, (word,))]
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(NAMES)}")
    return [name for name in NAMES if name in names]


def sizes_of(options: argparse.Namespace) -> Sizes:
    sizes = TINY if options.tiny else QUICK if options.quick else FULL
    if options.seconds is not None:
        return msgspec.structs.replace(sizes, seconds=options.seconds)
    return sizes


def run(directory: Path, seed: int, options: argparse.Namespace) -> Report:
    start = time.monotonic()
    sizes = sizes_of(options)
    report = Report(
        seed=seed,
        kind="tiny" if options.tiny else "quick" if options.quick else "full",
        payload_bytes=Work(seed).payload_bytes,
        machine=machine.describe(directory),
    )
    with_peers = not options.no_peers
    parts: tuple[tuple[type[Stand], dict[str, Any]], ...] = (
        (Stand, WORKLOADS),
        (PostgresStand, ON_POSTGRES),
        (AdapterStand, OF_ADAPTERS),
    )
    for kind, workloads in parts:
        names = [name for name in options.only if name in workloads]
        if names:
            stand = kind(directory, seed, sizes, with_peers=with_peers)
            part(report, stand, {name: workloads[name] for name in names}, options)
    report.seconds = time.monotonic() - start
    return report


def part(
    report: Report, stand: Stand, workloads: dict[str, Any], options: argparse.Namespace
) -> None:
    """The workloads of one stand; the next one starts on an idle machine."""
    # Few workloads take their usual time each, unless somebody named the whole time.
    shares = 1.0
    if options.seconds is not None:
        shares = sum(KNOWN[name].share for name in options.only) or 1.0
    try:
        for name, workload in workloads.items():
            stand.say(f"{name}: {workload.title}")
            begun = time.monotonic()
            seconds = stand.sizes.seconds * workload.share / shares
            try:
                report.rows += workload.run(stand, seconds)
            except ContenderFailed as error:
                if stand.building:
                    raise
                # The other workloads have taken minutes; their rows are kept.
                report.failures.append(f"{name} broke off: {error}")
                stand.say(report.failures[-1])
            report.took_s[name] = round(time.monotonic() - begun, 1)
        report.peers |= stand.peer_notes(report.machine)
    finally:
        stand.close()
    if isinstance(stand, PostgresStand):
        report.postgres_notes += stand.notes
    elif isinstance(stand, AdapterStand):
        report.adapter_notes += stand.notes
    else:
        report.notes += stand.notes


if __name__ == "__main__":
    sys.exit(main())
