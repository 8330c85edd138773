"""What is printed: colors and borders for a terminal, plain text for everything else.

Text from a store is escaped here, on its way out, so that no verb can forget it.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from ledgerstone.cli.failures import INTERRUPTED, CliError
from ledgerstone.clock import to_datetime
from ledgerstone.codec import encode_json
from ledgerstone.records.sessions import Page

T = TypeVar("T")
Columns: TypeAlias = Mapping[str, Callable[[T], object]]
"""A table: under each header, what an item has there."""

ROLE_STYLES = {"system": "magenta", "user": "cyan", "assistant": "green", "tool": "yellow"}
CALL_CHARS = 72
"""Maximum length of a tool call in a table, in characters."""
NAME_CHARS = 10
"""Width of the names in a list of facts, in characters."""
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


class ShowProgress(Protocol):
    def __call__(self, phase: str, done: int, total: int | None, /) -> None: ...


def console() -> Console:
    """The terminal, or plain text of any width where there is none."""
    return Console(file=sys.stdout, highlight=False, emoji=False, markup=False)


def print_json(value: Any) -> None:
    """One JSON document; escaped, so that every terminal and pipe can carry it."""
    print(json.dumps(msgspec.to_builtins(value), indent=2))


def print_line(text: str = "", style: str = "") -> None:
    """One line, however long; the terminal wraps it."""
    console().print(Text(visible(text), style), soft_wrap=True)


def print_text(text: str, indent: str) -> None:
    """Text of several lines, which may have tabs."""
    for line in visible(text, lines=True).split("\n"):
        console().print(Text(indent + line), soft_wrap=True)


def print_answer(value: Any, text: str, style: str = "", *, as_json: bool) -> None:
    """What a verb did: a document for programs, a line for people."""
    if as_json:
        print_json(value)
    else:
        print_line(text, style)


def print_facts(facts: Mapping[str, object], width: int = NAME_CHARS) -> None:
    """A line for each name that has a value."""
    for name, value in facts.items():
        if value not in (None, ""):
            print_line(f"{name:<{width}}{value}")


def print_items(columns: Columns[T], items: Sequence[T], *, none: str = "") -> None:
    """A table with a row for each item, or the sentence `none` when there is no item."""
    if none and not items:
        print_line(none)
        return
    rows = [[cell(item) for cell in columns.values()] for item in items]
    print_table([*columns], rows)


def print_page(
    name: str,
    page: Page[T],
    columns: Columns[T],
    *,
    as_json: bool,
    none: str,
    plain: Callable[[T], object] = lambda item: item,
) -> None:
    """A page of a list and how to get the next one; `plain` makes an item ready for JSON."""
    if as_json:
        total = {} if page.total is None else {"total": page.total}
        print_json({name: [*map(plain, page.items)], **total, "cursor": page.cursor})
        return
    print_items(columns, page.items, none=none)
    if page.has_more:
        counted = "" if page.total is None else f"{len(page)} of {page.total}; "
        print_line(f"{counted}the next ones: --cursor {page.cursor}", "dim")


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns: a table in a terminal, aligned text without cuts elsewhere."""
    out = console()
    shown = [["" if cell is None else visible(str(cell)) for cell in row] for row in rows]
    if out.is_terminal:
        table = Table(*headers, box=box.SIMPLE_HEAD, pad_edge=False)
        for row in shown:
            table.add_row(*(Text(cell, overflow="fold") for cell in row))
        out.print(table)
        return
    widths = [max(map(len, column)) for column in zip(headers, *shown, strict=True)]
    for row in ([*headers], *shown):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


@contextmanager
def progress_bar(title: str, *, interrupted: str = "") -> Iterator[ShowProgress]:
    """A bar, if there is a terminal. With `interrupted`, Ctrl-C is a CliError of that text."""
    waiting = Console(stderr=True)
    with Progress(console=waiting, transient=True, disable=not waiting.is_terminal) as bar:
        task = bar.add_task(title, total=None)

        def show(phase: str, done: int, total: int | None) -> None:
            bar.update(task, description=phase, completed=done, total=total)

        try:
            yield show
        except KeyboardInterrupt:
            if not interrupted:
                raise
            raise CliError(interrupted, INTERRUPTED) from None


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
