"""`python -m bench`: time Ledgerstone, floors and peers side by side, and say what held."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench import machine, publish, table
from bench.remote import ContenderFailed
from bench.report import Report
from bench.sizes import FULL, QUICK, TINY, Sizes
from bench.stand import Stand
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
    workloads = "\n".join(f"  {name:4} {one.title}" for name, one in WORKLOADS.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog=f"workloads:\n{workloads}\n\nAll of them take about ten minutes, two of them for "
        "the million messages of RSS;\n--quick takes about one. Messages about progress go to "
        "stderr.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="about one minute; smaller stores")
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", type=chosen, default=list(WORKLOADS), metavar="W1,W3,RSS")
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


def chosen(text: str) -> list[str]:
    names = [name.strip().upper() for name in text.split(",")]
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(WORKLOADS)}")
    return [name for name in WORKLOADS if name in names]


def sizes_of(options: argparse.Namespace) -> Sizes:
    sizes = TINY if options.tiny else QUICK if options.quick else FULL
    if options.seconds is not None:
        return msgspec.structs.replace(sizes, seconds=options.seconds)
    return sizes


def run(directory: Path, seed: int, options: argparse.Namespace) -> Report:
    start = time.monotonic()
    described = machine.describe(directory)
    sizes = sizes_of(options)
    stand = Stand(directory, seed, sizes, with_peers=not options.no_peers)
    # Few workloads take their usual time each, unless somebody named the whole time.
    shares = 1.0
    if options.seconds is not None:
        shares = sum(WORKLOADS[name].share for name in options.only) or 1.0
    report = Report(
        seed=seed,
        kind="tiny" if options.tiny else "quick" if options.quick else "full",
        payload_bytes=stand.work.payload_bytes,
        machine=described,
    )
    try:
        for name in options.only:
            stand.say(f"{name}: {WORKLOADS[name].title}")
            begun = time.monotonic()
            seconds = sizes.seconds * WORKLOADS[name].share / shares
            try:
                report.rows += WORKLOADS[name].run(stand, seconds)
            except ContenderFailed as error:
                if stand.building:
                    raise
                # The other workloads have taken minutes; their rows are kept.
                report.failures.append(f"{name} broke off: {error}")
                stand.say(report.failures[-1])
            report.took_s[name] = round(time.monotonic() - begun, 1)
        synchronous = f"{described.standard_synchronous} (the default)"
        report.peers = {
            entry.title: f"{stand.journal(entry.key)}, synchronous={synchronous}; {entry.note}"
            for entry in stand.peers_there
        }
    finally:
        stand.close()
    report.notes = stand.notes
    report.seconds = time.monotonic() - start
    return report


if __name__ == "__main__":
    sys.exit(main())
