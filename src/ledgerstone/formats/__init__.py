"""Messages of other libraries as ours and back, without losing a word of them.

    message = formats.keep("openai", item)            # ours, with what our parts cannot say
    item = formats.native("openai", [message])[0]     # the very item again
    formats.native("langchain", messages)             # the same conversation in another format

Natives are plain JSON values; what makes objects of them is in each library's adapter. A message
that came from a format is given back exactly; one of another origin is rendered from its parts.
Bytes that a message names by blob are put into it first: `with_bytes`, with those of `blobs_of`.
"""

from __future__ import annotations

from ledgerstone.formats.media import blobs_of, with_bytes
from ledgerstone.formats.natives import NAMES, keep, keep_all, native, origin

__all__ = ["NAMES", "keep", "keep_all", "native", "origin", "blobs_of", "with_bytes"]
