"""closed.json: the position at which a store was closed on purpose.

After a crash the last line of all may be unfinished. After a closing it may not: then a last line
that is not whole is damage, and this small file is who remembers it.
"""

from __future__ import annotations

import msgspec

from ledgerstone.engines.file.folder import Folder
from ledgerstone.engines.file.lines import sum_of

CLOSED = "closed.json"


class Closed(msgspec.Struct, frozen=True):
    """The last line of the store, as position, journal and n."""

    pos: int
    last: tuple[int, int]
    sum: str = ""

    def signed(self) -> Closed:
        """The same with its checksum."""
        return Closed(self.pos, self.last, sum_of(msgspec.json.encode((self.pos, self.last))))


def write_closed(folder: Folder, pos: int, last: tuple[int, int]) -> None:
    """Remember where the store stands; OSError when it could not be written."""
    data = msgspec.json.encode(Closed(pos, last).signed()) + b"\n"
    folder.replace(folder.root, CLOSED, [data])


def read_closed(folder: Folder, warnings: list[str]) -> Closed | None:
    """What is remembered; None when nothing is, or when it is not whole."""
    if CLOSED not in folder.disk.names(folder.root):
        return None
    try:
        found = msgspec.json.decode(folder.disk.read(folder.root, CLOSED), type=Closed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    if found is None or found != found.signed():
        warnings.append(f"{CLOSED} was not used: it is not whole")
        return None
    return found
