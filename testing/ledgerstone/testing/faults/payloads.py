"""Texts that do harm where text becomes a query, a path or a line of a log.

injections    for SQL, document queries, LIKE, full text search, JSON paths, templates
traversals    for names that become paths
canaries      that look like secrets and must turn up nowhere but where they were put
"""

from __future__ import annotations

import string
from pathlib import Path
from random import Random

CANARY_CHARS = 40

_STEMS = (
    "' or '1'='1",
    "' or 1=1",
    '" or ""="',
    "' union all select null, null, null",
    "' union select body from nodes",
    "'; drop table sessions",
    "'; delete from turns",
    "'; update heads set fence = 0",
    "'; attach database 'x' as y",
    "'; pragma writable_schema = 1",
    "') or ('1'='1",
    "')) union select * from contents",
    "1; select load_extension('x')",
    "' and (select count(*) from nodes) > 0",
    "' and randomblob(100000000) is not null",
    "' group by tenant having 1=1",
    "' order by 99",
    "' limit 1 offset 1",
    "case when 1=1 then id else tenant end",
    "\\' or 1=1",
    "%' or '%'='",
    "_%",
    "%",
    "*",
    "?1",
    ":tenant",
    "@tenant",
    "$tenant",
    "{tenant}",
    "{0.__class__}",
    "%s%s%n",
    "${jndi:ldap://x}",
    "{{7*7}}",
    "<script>alert(1)</script>",
    "$where: '1 == 1'",
    '{"$gt": ""}',
    '{"$ne": null}',
    "[$ne]",
    "$.a",
    "$[0]",
    "$..*",
    "a' || '$.b",
    '"a" OR "b"',
    "NEAR(a b)",
    "a* NOT b",
    "col : match",
    "^start",
    "\nselect 1",
    "\r\nSet-Cookie: x=y",
    "a\tb",
    "\u2019 or 1=1",
    "\uff07 or 1=1",
    "\u02bc; drop table nodes",
    "x'41'",
    "0x41",
    "null",
    "true",
    "-1",
    "1e309",
    "id desc",
    "-updated, (select 1)",
    "created; --",
    "ledger.draft/",
    "main",
)
_TAILS = ("", " --", " #", " /*", "*/", ";", "';--", '"', "\\")
_DOTS = ("..", "%2e%2e", "..%c0%af", "%252e%252e", "....", ". .", "\u2025", "..;")
_SLASHES = ("/", "\\", "%2f", "%5c", "//", "\u2215")
_TARGETS = ("escaped", "store.db", "etc/passwd", "store.db-lock")
_NAMES = (
    ".",
    "..",
    "",
    "CON",
    "nul",
    "aux.txt",
    "COM1",
    "C:\\escaped",
    "\\\\host\\share\\escaped",
    "file:///escaped",
    "~/escaped",
    "~root",
    "$HOME/escaped",
    "`touch escaped`",
    "|escaped",
    "a\x00/../escaped",
    "a/./b",
    "a//b",
    "-rf",
    "x" * 255,
    "\u00e9" * 200,
    "e\u0301/escaped",
    "escaped.",
    "escaped ",
    ".git/config",
    "journal.jsonl",
)


def injections() -> list[str]:
    """More than 500 texts; no two are equal."""
    made = [stem + tail for stem in _STEMS for tail in _TAILS]
    return list(dict.fromkeys(made))


def traversals(root: Path) -> list[str]:
    """More than 300 names that try to leave a folder, some of them for `root` itself."""
    made = [
        slash.join([*[dots] * depth, *target.split("/")])
        for dots in _DOTS
        for slash in _SLASHES
        for depth in (1, 3)
        for target in _TARGETS
    ]
    absolute = [f"{root}/escaped-{n}" for n in range(10)]
    return list(dict.fromkeys([*made, *_NAMES, *absolute]))


def canaries(count: int, random: Random) -> list[str]:
    """Texts that look like the keys of well-known services, and that nothing else contains."""
    shapes = ("sk-{}", "ghp_{}", "AKIA{}", "xoxb-{}", "Bearer {}", "password={}", "eyJ{}.{}.x")
    letters = string.ascii_letters + string.digits
    made = []
    for n in range(count):
        noise = "".join(random.choices(letters, k=CANARY_CHARS))
        made.append(shapes[n % len(shapes)].format(noise, noise))
    return made
