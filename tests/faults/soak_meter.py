"""What a soak measures of its own process, and how it tells growth from noise."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from types import ModuleType

import apsw
import msgspec

KIB = 1024
MIB = 1024 * KIB
OURS = "ledgerstone"
DEPTH_MAX = 12
"""Levels of attributes that are followed from a store."""
SAMPLES_MIN = 9
"""Samples without which thirds say nothing."""


class Times(msgspec.Struct, frozen=True):
    """How long a soak runs, warm-up included, and how often it is measured."""

    warm_up_s: float
    end_s: float
    every_s: float


class Sample(msgspec.Struct, frozen=True):
    """One moment of the process; sizes in bytes."""

    at_s: float
    steps: int
    rss: int
    blocks: int
    """Small objects of Python, in blocks."""
    malloc: int
    """What the C allocator handed out: large Python objects, SQLite, C libraries."""
    sqlite: int
    descriptors: int
    threads: int
    log: int
    cached: int
    """Entries of all containers that the stores and our modules hold."""


LIMITS = {
    "rss": 4 * MIB,
    "blocks": 20_000,
    "malloc": 3 * MIB,
    "sqlite": 3 * MIB,
    "descriptors": 4,
    "threads": 2,
    "log": 64 * MIB,
    "cached": 1_000,
}
"""Growth of the median from the first third to the last that is still noise."""


def judge(samples: Sequence[Sample], per_step: Mapping[str, int] | None = None) -> Iterator[str]:
    """What grew; `per_step` is growth that is known and allowed for each step."""
    if len(samples) < SAMPLES_MIN:
        yield f"only {len(samples)} samples, at least {SAMPLES_MIN} needed"
        return
    first_steps, last_steps = thirds(samples, "steps")
    for name, limit in LIMITS.items():
        first, last = thirds(samples, name)
        allowed = limit + (per_step or {}).get(name, 0) * (last_steps - first_steps)
        if last - first > allowed:
            yield f"{name} grew from {first:,.0f} to {last:,.0f}; at most {allowed:,.0f} is noise"


def thirds(samples: Sequence[Sample], name: str) -> tuple[float, float]:
    """The medians of the first and the last third."""
    size = len(samples) // 3
    values = [getattr(one, name) for one in samples]
    return median(values[:size]), median(values[-size:])


def table(samples: Sequence[Sample], rows_max: int = 12) -> str:
    """The samples as lines of text, evenly picked."""
    lines = ["minute   steps  RSS MiB  blocks  malloc MiB  SQLite MiB  fds  threads  log MiB"]
    for one in samples[:: max(1, len(samples) // rows_max)]:
        lines.append(
            f"{one.at_s / 60:6.1f} {one.steps:7,} {one.rss / MIB:8.1f} {one.blocks:7,}"
            f" {one.malloc / MIB:11.1f} {one.sqlite / MIB:11.2f} {one.descriptors:4}"
            f" {one.threads:8} {one.log / MIB:8.1f}"
        )
    return "\n".join(lines)


class _Mallinfo(ctypes.Structure):
    """The `mallinfo2` of the GNU C library, all arenas together."""

    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")),
        *((name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks")),
        ("keepcost", ctypes.c_size_t),
    ]


_LIBC = ctypes.CDLL(None)
_LIBC.mallinfo2.restype = _Mallinfo
_M_ARENA_MAX = -8


def use_one_arena() -> None:
    """Let all threads share one heap from now on: free memory of many heaps looks like a leak."""
    _LIBC.mallopt(_M_ARENA_MAX, 1)


def take_sample(at_s: float, steps: int, log: Path | None, *stores: object) -> Sample:
    """Measure this process; `log` is the write-ahead log, where there is one.

    What is free goes back to the system first, so that RSS shows what is in use.
    """
    gc.collect()
    _LIBC.malloc_trim(0)
    heap = _LIBC.mallinfo2()
    return Sample(
        at_s=at_s,
        steps=steps,
        rss=resident_bytes(),
        blocks=sys.getallocatedblocks(),
        malloc=heap.uordblks + heap.hblkhd,
        sqlite=apsw.memory_used(),
        descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()),
        threads=threading.active_count(),
        log=log.stat().st_size if log is not None and log.exists() else 0,
        cached=sum(containers(*stores).values()),
    )


def resident_bytes() -> int:
    """The VmRSS of this process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * KIB
    raise RuntimeError("this system does not tell VmRSS")


def containers(*roots: object) -> dict[str, int]:
    """The length of every container that the roots and our modules hold, by its path.

    Finds what a list of known caches would miss: it follows the attributes of our own objects, and
    asks functools caches for their size.
    """
    found: dict[str, int] = {}
    seen: set[int] = set()
    waiting: deque[tuple[str, object, int]] = deque((type(one).__name__, one, 0) for one in roots)
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == OURS:
            waiting += [(f"{name}.{key}", one, 1) for key, one in list(vars(module).items())]
    while waiting:
        path, one, depth = waiting.popleft()
        if id(one) in seen or depth > DEPTH_MAX:
            continue
        seen.add(id(one))
        size = length(one)
        if size is not None:
            found[path] = size
        waiting += [(f"{path}.{key}", below, depth + 1) for key, below in parts(one)]
    return found


def length(one: object) -> int | None:
    """The entries of a container or a functools cache; None for anything else."""
    info = getattr(one, "cache_info", None) if callable(one) else None
    if info is not None:
        return int(info().currsize)
    sized = isinstance(one, dict | list | set | deque) or type(one).__name__ == "WeakSet"
    return len(one) if sized else None  # type: ignore[arg-type]


def parts(one: object) -> Iterator[tuple[str, object]]:
    """The attributes of an object of ours, and what is ours in a container."""
    if isinstance(one, dict):
        yield from ((f"[{n}]", value) for n, value in enumerate(list(one.values())) if ours(value))
    elif isinstance(one, list | tuple | set | deque):
        yield from ((f"[{n}]", value) for n, value in enumerate(list(one)) if ours(value))
    elif ours(one):
        names = [*getattr(one, "__dict__", ())]
        for kind in type(one).__mro__:
            names += kind.__dict__.get("__slots__", ())
        yield from ((name, getattr(one, name)) for name in names if hasattr(one, name))


def ours(one: object) -> bool:
    """Whether it is an object of this project, and no module."""
    return type(one).__module__.split(".")[0] == OURS and not isinstance(one, ModuleType)
