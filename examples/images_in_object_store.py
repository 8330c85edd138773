"""A user sends images. The conversation is in SQLite, the bytes are in an object store.

It runs by itself with a directory for the bytes. Give it a bucket and it uses that:

    python images_in_object_store.py s3://my-bucket/agent      (or LEDGERSTONE_BLOBS=...)

with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_ENDPOINT_URL for a store of your own.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
import tempfile
import zlib
from pathlib import Path

from ledgerstone import AsyncStore

SESSION = "holiday"


def png(width: int, height: int, grey: int) -> bytes:
    """A picture of one colour, made by hand: always the same bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = b"".join(b"\0" + bytes([grey]) * width for _ in range(height))
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


async def look_at(store: AsyncStore, ref: str) -> str:
    """What a model would be sent: the bytes, proved piece by piece while they are read."""
    async with store.blobs.open(ref) as reader:
        data = await reader.read()
    width, height = struct.unpack(">II", data[16:24])
    return f"{width}x{height} {reader.media_type}"


async def receive(store: AsyncStore, text: str, image: bytes) -> str:
    """An upload and the message about it; the turn is what makes the image stay."""
    photo = await store.attachments.put(SESSION, image, media_type="image/png")
    async with store.turns.begin(SESSION, create=True) as turn:
        turn.user([text, {"type": "image", "blob": photo.id, "media_type": "image/png"}])
        turn.assistant(f"I see {await look_at(store, photo.id)}.")
    return photo.id


async def main(folder: Path, blobs: str) -> None:
    async with AsyncStore.open(folder / "agent.db", blobs=blobs) as store:
        first = await receive(store, "What is this?", png(64, 48, 200))
        again = await receive(store, "And this?", png(64, 48, 200))
        print(f"the same image twice is kept once: {first == again}")

        # She chose a picture, the browser sent it, and then she closed the window.
        unused = await store.attachments.put(SESSION, png(640, 480, 20), media_type="image/png")

    # Days later, in another process.
    async with AsyncStore.open(folder / "agent.db", blobs=blobs) as store:
        for message in await store.messages.history(SESSION):
            print(f"{message.role}: {message.text}")
        print(f"still there: {await look_at(store, first)}")

        done = await store.admin.gc(older_than_s=0, attachments_older_than_s=0)
        print(f"collected: {done.deleted} image of {done.freed_bytes} bytes")
        print(f"the unused one is gone: {not await store.blobs.exists(unused)}")
        print(f"the used one is not: {await store.blobs.exists(first)}")

        # When the conversation is purged nothing refers to its images any more.
        await store.sessions.purge(SESSION)
        await store.admin.gc(older_than_s=0)
        print(f"after the purge: {await store.blobs.stat(first)}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        named = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("LEDGERSTONE_BLOBS")
        asyncio.run(main(Path(made), named or f"{made}/images"))
