"""One wrong bit in what is stored: found or harmless, never other content without a word.

A small store with a real history lies in a folder. For each flip the folder is laid out anew with
one byte changed, opened, read from end to end and verified. Good outcomes are:

    harmless   every answer is what it was
    refused    at least one answer is a typed error, the others are what they were
    found      an answer differs, and verify names a defect (or cannot read on)
    lost tail  in a log: every session stands where it once stood, as after a crash

Everything else is a violation: another answer that verify vouches for, an error of the driver, a
process that dies or never answers. The flips run in a child, so that those can be seen as well.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from ledgerstone.api_sync.store import Store
from ledgerstone.clock import ManualClock
from ledgerstone.commands.turns import VerifySession
from ledgerstone.errors import LedgerstoneError
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.processes import Child, Say
from ledgerstone.testing.faults.specimen import (
    HALF,
    SESSIONS,
    TENANTS,
    Reading,
    Refused,
    fill,
    probe,
    read_all,
    refused,
)
from ledgerstone.testing.wrappers import Wrapper

ANSWER_WAIT_S = 20.0
DEATHS_MAX = 10
DETAILS_MAX = 3

Open = Callable[[str, ManualClock], Backend]
"""Opens the store in a folder; importable in a child process."""


class Flip(msgspec.Struct, frozen=True):
    """One changed byte: `mask` is what it is XORed with."""

    file: str
    offset: int
    mask: int


class Original(msgspec.Struct, frozen=True, kw_only=True):
    """The undamaged store: its files, what it answers, and what it answered before."""

    files: dict[str, bytes]
    now_us: int
    reading: Reading
    probes: Reading
    earlier: list[Reading] = []
    logs: tuple[str, ...] = ()


class Outcome(msgspec.Struct, frozen=True):
    kind: str
    detail: str = ""


HARMLESS = Outcome("harmless")


class Flipped(msgspec.Struct):
    """What many flips came to."""

    counts: dict[str, int] = {}
    errors: dict[str, int] = {}
    violations: list[str] = []

    def note(self) -> str:
        kinds = ("harmless", "refused", "found", "lost tail")
        return ", ".join(f"{self.counts.get(kind, 0)} {kind}" for kind in kinds)


class Remembers(Wrapper):
    """Keeps what the whole store answered after each write."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.readings = [read_all(inner)]

    def write(self, command: Any) -> Any:
        answer = self.inner.write(command)
        self.readings.append(read_all(self.inner))
        return answer


def grow(opener: Open, folder: Path) -> Original:
    """A closed store."""
    clock = ManualClock()
    backend = opener(str(folder), clock)
    fill(backend, clock)
    backend.close()
    return _original(opener, folder, _files(folder), clock)


def grow_with_log(opener: Open, folder: Path, *, logs: tuple[str, ...]) -> Original:
    """A store whose second half is still in its log: copied while it is open, as after a kill.

    `logs` are the ends of the names of the files that may lose their end.
    """
    clock = ManualClock()
    backend = opener(str(folder), clock)
    fill(backend, clock, last=HALF)
    backend.close()
    remembers = Remembers(opener(str(folder), clock))
    fill(remembers, clock, first=HALF)
    files = _files(folder)
    remembers.close()
    return _original(opener, folder, files, clock, earlier=remembers.readings, logs=logs)


def _original(
    opener: Open,
    folder: Path,
    files: dict[str, bytes],
    clock: ManualClock,
    **more: Any,
) -> Original:
    lay_out(folder, files)
    backend = opener(str(folder), clock)
    reading, probes = read_all(backend), probe(backend, clock)
    backend.close()
    return Original(files=files, now_us=clock.now_us(), reading=reading, probes=probes, **more)


def choose(
    original: Original, count: int, random: Random, *, logs_only: bool = False
) -> list[Flip]:
    """Random flips, in each file as many as its size says; half of them bits, half of them bytes.

    Half of all hit a byte that is not zero: much of a small store is empty space.
    """
    names = [name for name in original.files if not logs_only or name.endswith(original.logs)]
    sizes = [len(original.files[name]) for name in names]
    filled = {
        name: [at for at, byte in enumerate(original.files[name]) if byte]
        for name in names
        if any(original.files[name])
    }
    flips = []
    for n in range(count):
        (name,) = random.choices(names, weights=sizes)
        offset = random.randrange(len(original.files[name]))
        if n % 2 and name in filled:
            offset = random.choice(filled[name])
        mask = 1 << random.randrange(8) if n % 4 < 2 else random.randrange(1, 256)
        flips.append(Flip(name, offset, mask))
    return flips


def flip_often(opener: Open, original: Original, flips: list[Flip], folder: Path) -> Flipped:
    """Try each flip, and say what it came to."""
    tally = Flipped()
    counts: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    done, deaths = 0, 0
    while done < len(flips) and deaths < DEATHS_MAX:
        child = Child(_flip_all, opener, original, flips[done:], str(folder))
        try:
            while done < len(flips):
                outcome = _next(child)
                if outcome is None:
                    deaths += 1
                    outcome = Outcome("violation", "the process died, or it hangs")
                counts[outcome.kind] += 1
                if outcome.kind == "refused":
                    errors[outcome.detail] += 1
                if outcome.kind == "violation":
                    tally.violations.append(f"{flips[done]}: {outcome.detail}")
                done += 1
                if outcome.detail.startswith("the process"):
                    break
        finally:
            child.kill()
    tally.counts, tally.errors = dict(counts), dict(errors)
    return tally


def _next(child: Child) -> Outcome | None:
    for data in child.hear(ANSWER_WAIT_S):
        return msgspec.json.decode(data, type=Outcome)
    return None


def _flip_all(say: Say, opener: Open, original: Original, flips: list[Flip], folder: str) -> None:
    for flip in flips:
        lay_out(Path(folder), original.files, flip)
        say(msgspec.json.encode(judge(opener, original, flip, folder)))


def judge(opener: Open, original: Original, flip: Flip, folder: str) -> Outcome:
    """Open the folder as it is, read everything, and compare."""
    clock = ManualClock(original.now_us)
    try:
        backend = opener(folder, clock)
    except Exception as error:
        answer = refused(error)
        if answer.about == "store":
            return Outcome("refused", answer.error)
        return Outcome("violation", f"open raised {answer.error}: {answer.text}")
    try:
        given = read_all(backend)
        given["verify"] = verified(backend, clock)
        given |= probe(backend, clock)
    finally:
        with suppress(LedgerstoneError):
            backend.close()
    return _compare(original, flip, given)


def _compare(original: Original, flip: Flip, given: Reading) -> Outcome:
    raw = [f"{name} raised {one.error}: {one.text}" for name, one in _refused(given, "raw")]
    if raw:
        return Outcome("violation", f"{len(raw)} raw errors; " + "; ".join(raw[:DETAILS_MAX]))
    defect = given.pop("verify")
    if defect:
        return Outcome("found", str(defect))
    wanted = original.reading | original.probes
    errors = dict(_refused(given, "store"))
    wrong = [name for name in given if given[name] != wanted[name] and name not in errors]
    if not wrong:
        return Outcome("refused", next(iter(errors.values())).error) if errors else HARMLESS
    if original.logs and flip.file.endswith(original.logs) and _stood_once(original, given):
        return Outcome("lost tail")
    places = [f"{name}: {_difference(wanted[name], given[name])}" for name in wrong[:DETAILS_MAX]]
    return Outcome("violation", f"{len(wrong)} answers differ; " + "; ".join(places))


def _refused(given: Reading, about: str) -> list[tuple[str, Refused]]:
    return [
        (name, answer)
        for name, answer in given.items()
        if isinstance(answer, Refused) and answer.about == about
    ]


def _stood_once(original: Original, reading: Reading) -> bool:
    """Each session stands where it stood after one of the writes."""
    groups: dict[str, list[str]] = {}
    for name in reading:
        place = name.split(" ")[0]
        if "/" in place:
            groups.setdefault(place, []).append(name)
    return all(
        any(all(reading[name] == state[name] for name in names) for state in original.earlier)
        for names in groups.values()
    )


def verified(backend: Backend, clock: ManualClock) -> str | Refused:
    """The first defect that verify names, or the error it ends with; "" when it says all is well.

    Once as an operator does it, once for every session that should be there.
    """
    try:
        for tenant in TENANTS:
            reports = [Store(backend, tenant=tenant, clock=clock).admin.verify()]
            reports += backend.read([VerifySession(tenant=tenant, session=id) for id in SESSIONS])
            for report in reports:
                for defect in report.defects:
                    return f"{defect.kind} {defect.where}"
    except Exception as error:
        return refused(error)
    return ""


def _difference(wanted: Any, given: Any) -> str:
    """Where two answers part, as a path into them."""
    return _path_of_difference(msgspec.to_builtins(wanted), msgspec.to_builtins(given), "")


def _path_of_difference(wanted: Any, given: Any, path: str) -> str:
    if isinstance(wanted, dict) and isinstance(given, dict):
        for key in [*wanted, *given]:
            if wanted.get(key) != given.get(key):
                return _path_of_difference(wanted.get(key), given.get(key), f"{path}.{key}")
    if isinstance(wanted, list) and isinstance(given, list):
        if len(wanted) != len(given):
            return f"{path}: {len(given)} instead of {len(wanted)}"
        for n, (one, other) in enumerate(zip(wanted, given, strict=True)):
            if one != other:
                return _path_of_difference(one, other, f"{path}[{n}]")
    return f"{path}: {given!r:.60} instead of {wanted!r:.60}"


def _files(folder: Path) -> dict[str, bytes]:
    """What is in a folder, save what is rebuilt at every start."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-lock"))
    }


def lay_out(folder: Path, files: dict[str, bytes], flip: Flip | None = None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        changed = bytearray(data)
        if flip is not None and flip.file == name:
            changed[flip.offset] ^= flip.mask
        path.write_bytes(changed)
