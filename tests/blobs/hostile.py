"""Names that have led programs out of their directories, or made two things one."""

from __future__ import annotations

import itertools

_UP = r"""
.. . ../ ..\ ....// ..;/ ... %2e%2e %2e%2e%2f %252e%252e%255c ..%c0%af ..%00/ %uff0e%uff0e
"""
UP = [*_UP.split(), "\uff0e\uff0e", "\u3002\u3002", "\u2024\u2024", ".. ", "..\u200b"]
TARGETS = ["etc/passwd", "store.db", "blobs", "x", "../../x", "/x"]
_ABSOLUTE = r"""
/ // /etc/passwd /proc/self/environ /dev/null ~ ~root ~/x $HOME ${HOME} `id` $(id) C: C:\x C:/x c:x
file:///etc/passwd \\host\share //host/share \\?\C:\x \\.\COM1 \ a\b a/b a//b a/./b a/../b -rf -- *
? | < > " ' ; & # % :
"""
_RESERVED = """
CON con PRN AUX NUL nul.txt COM1 COM9 LPT1 CONIN$ CLOCK$ .git .htaccess .ssh desktop.ini Thumbs.db
lost+found aux.c a. .tmp a.tmp store.json lock snapshot.jsonl
"""
TEXTS = ["é", "É", "ß", "ss", "SS", "i", "I", "K", "Å", "fi", "a", "A", "א", "😀"]
TEXTS += ["e\u0301", "\ufb01", "\u0131", "\u0130", "\u212a", "A\u030a", "\u212b", "\u202eabc"]
TEXTS += ["a\u200d", "a\u00ad", "\u3000", "\xa0", "\uff41", "\U0001d4b6", "\U0010ffff", "\ufeff"]
TEXTS += ["a ", " a", "\uff58\uff0e\uff0e\uff0f", "\U0001f469\u200d\U0001f469"]
CONTROL = ["\0", "a\0b", "../\0", "\n", "a\nb", "\r", "\t", "\x1b[2J", "\x7f", "\x85"]
LONG = ["a" * 255, "a" * 256, "a" * 4096, "a" * 70_000, "../" * 2000, "é" * 255, "😀" * 64, ""]

NAMES = list(
    dict.fromkeys(
        UP
        + [f"{up}{sep}{to}" for up, to in itertools.product(UP, TARGETS) for sep in ("", "/")]
        + [f"{up * 8}{to}" for up, to in itertools.product(UP, TARGETS)]
        + _ABSOLUTE.split()
        + _RESERVED.split()
        + TEXTS
        + CONTROL
        + LONG
    )
)
"""More than 300, all different, though some look or sort alike."""
