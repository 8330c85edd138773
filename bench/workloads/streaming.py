"""RSS: the memory of a process through which a million messages pass stays flat."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import msgspec

from bench import entries
from bench.measure import Bar, Row
from bench.remote import environment
from bench.rss import TENTHS, Memory
from bench.stand import Stand

BAR: Final = Bar("at most", 1.1)
WITHIN_S: Final = 1800.0


def run(stand: Stand, _seconds: float) -> list[Row]:
    if not stand.has_ours:
        return []
    messages = stand.sizes.streamed
    stand.say(f"appending and streaming {messages:,} messages")
    command = [sys.executable, "-m", "bench.memory"]
    command += [str(stand.path("stream")), str(messages), str(stand.seed)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=WITHIN_S, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"bench.memory: {done.stderr.strip()[-400:]}")
    memory = msgspec.json.decode(done.stdout, type=Memory)
    return [
        memory_row("appending", memory.appending_mb, memory, memory.appended / memory.append_s),
        memory_row("streaming", memory.streaming_mb, memory, memory.streamed / memory.stream_s),
    ]


def memory_row(name: str, way_mb: list[float], memory: Memory, rate: float) -> Row:
    """The resident size at the end, against the size after the first tenth of the way."""
    wanted = memory.tenth * TENTHS
    done = memory.appended if name == "appending" else memory.streamed
    first, last = way_mb[0], way_mb[-1]
    slope = (last - first) / max(len(way_mb) - 1, 1)
    note = (
        f"{memory.start_mb:.1f} MB at the start, {first:.1f} at {memory.tenth:,}; "
        f"{slope:+.2f} MB per {memory.tenth:,}; {rate:,.0f} messages/s"
    )
    if done < wanted:
        note += f"; broken off after {done:,}"
    return Row(
        workload="RSS",
        case=f"{name} {wanted:,} messages",
        contender=entries.OURS.title,
        unit="MB",
        median=last,
        p10=min(way_mb),
        p90=max(way_mb),
        samples=len(way_mb),
        floor=f"at {memory.tenth:,} messages",
        ratio=last / first,
        bar=str(BAR),
        verdict=BAR.judge(last / first, last / first) if done == wanted else "missed",
        note=note,
    )
