"""What is printed: colours and borders for a terminal, plain text for everything else."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from ledgerstone.clock import to_datetime
from ledgerstone.codec import encode_json

CALL_CHARS = 72
"""Maximum length of a tool call in a table, in characters."""
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def console() -> Console:
    """The terminal, or plain text of any width where there is none."""
    return Console(file=sys.stdout, highlight=False, emoji=False, markup=False)


def print_json(value: Any) -> None:
    """One JSON document; escaped, so that every terminal and pipe can carry it."""
    print(json.dumps(msgspec.to_builtins(value), indent=2))


def print_line(text: str = "", style: str = "") -> None:
    """One line, however long; the terminal wraps it."""
    console().print(Text(text, style), soft_wrap=True)


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns: a table in a terminal, aligned text without cuts elsewhere."""
    out = console()
    if out.is_terminal:
        table = Table(*headers, box=box.SIMPLE_HEAD, pad_edge=False)
        for row in rows:
            table.add_row(*(Text(cell, overflow="fold") for cell in row))
        out.print(table)
        return
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    for row in (headers, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on the terminal, told phase, done and total; nothing where there is no terminal."""
    waiting = Console(stderr=True)
    with Progress(console=waiting, transient=True, disable=not waiting.is_terminal) as bar:
        task = bar.add_task("looking", total=None)

        def show(phase: str, done: int, total: int) -> None:
            bar.update(task, description=phase, completed=done, total=total)

        yield show


def visible(text: str, *, lines: bool = False) -> str:
    """Text from a store, safe to print: what would steer a terminal is shown as an escape."""
    kept = "\n\t" if lines else ""
    if text.isprintable():
        return text
    return "".join(c if c in kept or not _steers(c) else _escaped(c) for c in text)


def call_text(tool: str, arguments: Any) -> str:
    """A tool call as it would be typed, cut when it is long."""
    text = f"{tool} {encode_json(arguments, 'arguments').decode()}"
    return text if len(text) <= CALL_CHARS else text[: CALL_CHARS - 3] + "..."


def moment(us: int | None) -> str:
    """A time, to the second, in UTC."""
    return "" if not us else to_datetime(us).strftime("%Y-%m-%d %H:%M:%S")


def size(count: int) -> str:
    """Bytes as a person reads them."""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def plural(count: int, noun: str) -> str:
    """`1 turn`, `2 turns`, `2 batches`."""
    many = "es" if noun.endswith("ch") else "s"
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{many}"


def _steers(character: str) -> bool:
    # Emoji are joined by U+200D, which is harmless; the other format characters can reorder text.
    return unicodedata.category(character) in _HIDDEN and character != "\u200d"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
