"""One upload: from pieces of any size to a blob, or to nothing at all.

All of it blocks; the async store calls it from threads. The upload row comes before the first byte
and goes after the last one, so that whatever a kill leaves is found by the collector.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import NoReturn

from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.blobs.database import NAME, Database
from ledgerstone.blobs.reading import chunked, is_there
from ledgerstone.commands.blobs import BeginUpload, FinishUpload, ForgetUpload
from ledgerstone.errors import (
    BlobNotFound,
    InvalidValue,
    Misuse,
    OutcomeUnknown,
    ReadOnly,
    StorageFull,
    Unavailable,
)
from ledgerstone.ports.backend import Backend
from ledgerstone.ports.blobs import BlobPlace, BlobWriter
from ledgerstone.records.blobs import Blob
from ledgerstone.rules.outcomes import lost_answers

CHANGED = "changed while it was read"
REPEATS_MAX = 3
REPEAT_PAUSE_S = 0.02


class Uploading:
    """Bytes on their way in; `expected` is their SHA-256 when the caller knows it already."""

    def __init__(
        self,
        backend: Backend,
        place: Callable[[], BlobPlace],
        tenant: str,
        *,
        media_type: str | None = None,
        size_bytes: int | None = None,
        expected: str | None = None,
    ) -> None:
        self._backend = backend
        self._find_place = place
        self._tenant = tenant
        self._media_type = media_type
        self._size_wanted = size_bytes
        self._expected = expected
        self._key = ids.new_id()
        self._hash = sha256()
        self._sums: list[bytes] = []
        self._size = 0
        self._place: BlobPlace | None = None
        self._writer: BlobWriter | None = None
        # A cancelled caller lets go while a thread may still be at work for it.
        self._lock = threading.Lock()
        self._stopped = False
        self._over = False
        self._unsure = False

    def run(self, pieces: Iterable[bytes]) -> Blob:
        """All of it: pieces of any size become a blob."""
        self.begin()
        for chunk in chunked(pieces):
            self.write(chunk)
        return self.finish()

    def begin(self) -> None:
        """The upload row first."""
        with self._lock:
            self._check()
            place = self._place = self._find_place()
            name = BeginUpload(tenant=self._tenant, key=self._key, place=place.name)
            with lost_answers(name):
                self._backend.write(name)
            self._writer = place.begin(self._tenant, self._key)

    def write(self, chunk: bytes) -> None:
        """The next piece of CHUNK_BYTES, or the last one."""
        with self._lock:
            self._check()
            assert self._writer is not None, "begun before it is written to"
            self._size += len(chunk)
            if self._size_wanted is not None and self._size > self._size_wanted:
                self._refuse_size()
            self._hash.update(chunk)
            self._sums.append(sha256(chunk).digest())
            with self._place_calls():
                self._writer.write(chunk)

    def finish(self) -> Blob:
        """Everything was written; InvalidValue when it is not what was announced."""
        with self._lock:
            self._check()
            assert self._writer is not None, "begun before it is finished"
            ref = self._hash.hexdigest()
            if self._size_wanted not in (None, self._size):
                self._refuse_size()
            if self._expected not in (None, ref):
                said = f"its SHA-256 is {ref}, not {self._expected}"
                raise InvalidValue("data", f"{said}: it {CHANGED}, or the given one is wrong")
            with self._place_calls():
                self._writer.finish()
            command = FinishUpload(
                tenant=self._tenant,
                key=self._key,
                ref=ref,
                size_bytes=self._size,
                sums=b"".join(self._sums),
                media_type=self._media_type,
            )
            # From here on the bytes may be a blob's, whatever the answer is.
            self._over = True
            try:
                blob = self._send(command)
                if blob.key != self._key and not self._is_sound(blob):
                    blob = self._send(replace(command, instead_of=blob.key))
            except BlobNotFound:
                self._remove()
                raise
            if blob.key != self._key:
                self._remove()
            return blob

    def stop(self) -> None:
        """Whoever works at it ends with the step it is at; `abort` follows."""
        self._stopped = True

    def abort(self) -> None:
        """Leave nothing behind, as far as that can be done; the collector does the rest."""
        self.stop()
        with self._lock:
            if self._over:
                return
            self._over = True
            if self._writer is not None:
                self._writer.abort()
            if self._place is not None:
                self._remove()

    def _is_sound(self, blob: Blob) -> bool:
        """Whether the bytes that were put before are there; if they got lost these replace them."""
        assert self._place is not None
        if blob.place == self._place.name:
            return is_there(self._place, self._tenant, blob)
        return blob.place != NAME or is_there(Database(self._backend), self._tenant, blob)

    def _send(self, command: FinishUpload) -> Blob:
        for attempt in range(1, REPEATS_MAX + 1):
            try:
                return self._backend.write(command)
            except OutcomeUnknown:
                time.sleep(REPEAT_PAUSE_S * attempt)
        with lost_answers(command):
            return self._backend.write(command)

    def _remove(self) -> None:
        """The bytes, then the row; whatever fails here is found later by its row."""
        assert self._place is not None
        with suppress(Exception):
            self._place.delete(self._tenant, self._key)
            if not self._unsure:
                self._backend.write(ForgetUpload(tenant=self._tenant, key=self._key))

    @contextmanager
    def _place_calls(self) -> Iterator[None]:
        """After a lost answer the bytes may still arrive, so the collector has to look again."""
        try:
            yield
        except Unavailable as error:
            self._unsure = not isinstance(error, StorageFull | ReadOnly)
            raise

    def _refuse_size(self) -> NoReturn:
        said = f"{self._size_wanted} bytes were announced, {self._size} came"
        raise InvalidValue("data", said)

    def _check(self) -> None:
        if self._over or self._stopped:
            raise Misuse("this upload is over")
