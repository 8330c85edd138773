"""The command line: `ledgerstone VERB`, one file per verb, on nothing but the public API."""

from __future__ import annotations

import sys

_NEEDED = ("typer", "rich", "click")


def main() -> None:
    """The entry point of the `ledgerstone` command; always ends the process."""
    try:
        from ledgerstone.cli.app import run
    except ModuleNotFoundError as missing:
        if missing.name not in _NEEDED:
            raise
        print(
            f"ledgerstone: the command line needs {missing.name}: pip install 'ledgerstone[cli]'",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    raise SystemExit(run(sys.argv[1:]))
