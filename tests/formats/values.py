"""Values that the tests of formats share."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

Native = dict[str, Any]

PIXEL = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"
    b"\x1f\x15\xc4\x89\xfb\xff\xfe\xfd" + bytes(range(200, 256))
)
DATA = b64encode(PIXEL).decode()
LONG = "The quick brown fox jumps over the lazy dog, again and again and then once more."
