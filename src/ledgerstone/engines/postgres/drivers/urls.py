"""A postgresql:// url: what is ours, and what is the driver's."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

from ledgerstone.errors import InvalidValue

SCHEMA = "ledgerstone"
POOL_SIZE = 8
CONNECT_TIMEOUT_S = 10.0
STATEMENT_TIMEOUT_S = 30.0
SLACK_MS = 500
PORT = "5432"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
_SAYS = {"yes": True, "no": False}
# What both drivers understand; and what only libpq does, so that the other one is not told.
_BOTH = frozenset(
    (
        *("host", "port", "dbname", "user", "password", "passfile", "service"),
        *("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslpassword"),
        *("sslnegotiation", "ssl_min_protocol_version", "ssl_max_protocol_version"),
        *("application_name", "target_session_attrs", "krbsrvname", "gsslib"),
    )
)
_LIBPQ = frozenset(
    (
        *("hostaddr", "keepalives", "keepalives_idle", "keepalives_interval"),
        *("keepalives_count", "tcp_user_timeout", "channel_binding", "gssencmode"),
        *("requirepeer", "load_balance_hosts", "sslcertmode", "sslsni"),
    )
)
FORM = "postgresql://user:password@host:port/database?schema=ledgerstone"
CODES = "in a password write % / ? # @ : & as %25 %2F %3F %23 %40 %3A %26"
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
_MAY_BE_SECRET = re.compile(r"(?i)pass|pwd")


class Target(msgspec.Struct, frozen=True):
    """Where and how to connect. Its text never shows a password."""

    dsn: str
    async_dsn: str
    schema: str = SCHEMA
    pool_size: int = POOL_SIZE
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    statement_timeout_s: float = STATEMENT_TIMEOUT_S
    strict: bool = False
    """Whether the url names that time, so that waiting for one's turn is a part of it."""
    prepare: bool = True
    rls: bool = False
    migrate: bool = True
    lock_timeout_ms: int = 0
    read_only: bool = False

    def __repr__(self) -> str:
        return f"Target({self.shown})"

    @property
    def shown(self) -> str:
        """The place, for messages: without user, password and options."""
        parts = urlsplit(self.dsn)
        hosts = parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host")
        return f"{hosts or 'localhost'}{parts.path or '/'} (schema {self.schema})"

    @property
    def addresses(self) -> list[tuple[str | None, str | None]]:
        """Host and port of each server that may be asked; (None, None): as the dsn says."""
        parts = urlsplit(self.dsn)
        options = dict(parse_qsl(parts.query))
        named = parts.netloc.rpartition("@")[2]
        if "," in named:
            return [_host_and_port(one) for one in named.split(",")]
        hosts = options.get("host", "").split(",")
        ports = options.get("port", "").split(",")
        if named or len(hosts) == 1:
            return [(None, None)]
        given = ports if len(ports) == len(hosts) else ports[:1] * len(hosts)
        return [(host or None, port or PORT) for host, port in zip(hosts, given, strict=True)]

    @property
    def settings(self) -> dict[str, str]:
        """What every connection is told on starting."""
        named = "application_name" in dict(parse_qsl(urlsplit(self.dsn).query))
        told = {} if named else {"application_name": "ledgerstone"}
        # A pooler in transaction mode refuses what it does not track.
        return {**told, **self._conduct} if self.prepare else told

    @property
    def options(self) -> str:
        """The same for libpq."""
        if not self.prepare:
            return ""
        return " ".join(f"-c {name}={value}" for name, value in self._conduct.items())

    @property
    def lead(self) -> str:
        """The same for one transaction."""
        return "; ".join(f"SET LOCAL {name} = '{value}'" for name, value in self._conduct.items())

    @property
    def _conduct(self) -> dict[str, str]:
        limit_ms = round(1000 * self.statement_timeout_s) + SLACK_MS
        return {
            "search_path": self.schema,
            "jit": "off",
            # Planning takes longer than most of our statements, and their plans do not depend on
            # the values that are bound.
            "plan_cache_mode": "force_generic_plan",
            # Every statement is written for loops over indexes, as SQLite runs it. Whatever else is
            # good for a table that is small would be kept when it has grown.
            "enable_seqscan": "off",
            "enable_hashjoin": "off",
            "enable_mergejoin": "off",
            "enable_bitmapscan": "off",
            "random_page_cost": "1.1",
            # For those who are gone without a word: what they hold is free again after this.
            "statement_timeout": str(limit_ms),
            "idle_in_transaction_session_timeout": str(limit_ms),
            **({"lock_timeout": str(self.lock_timeout_ms)} if self.lock_timeout_ms else {}),
            **({"default_transaction_read_only": "on"} if self.read_only else {}),
        }


def _host_and_port(text: str) -> tuple[str | None, str | None]:
    one = urlsplit(f"//{text}")
    return one.hostname, PORT if one.port is None else str(one.port)


def parse_target(url: str, pool_size: int | None = None) -> Target:
    """The parts of a url; InvalidValue names what is wrong, and never the password."""
    parts = take_apart(url)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = given.pop("schema", SCHEMA)
    check_schema(schema)
    ours = {
        "strict": "statement_timeout_s" in given,
        "pool_size": _size(given.pop("pool_size", POOL_SIZE)) if pool_size is None else pool_size,
        "connect_timeout_s": _seconds(given, "connect_timeout_s", CONNECT_TIMEOUT_S),
        "statement_timeout_s": _seconds(given, "statement_timeout_s", STATEMENT_TIMEOUT_S),
        "prepare": _said(given.pop("prepare", "yes"), "prepare"),
        "rls": _said(given.pop("rls", "no"), "rls"),
        "migrate": _said(given.pop("migrate", "yes"), "migrate"),
    }
    for name in given:
        if name not in _BOTH | _LIBPQ:
            # After a password it may be a piece of it.
            field = "url" if _MAY_BE_SECRET.search(parts.query.partition(name)[0]) else name
            raise InvalidValue(field, f"an unknown option of the url; write {FORM}; {CODES}")
    base = f"postgresql://{parts.netloc}{parts.path}"
    common = {name: value for name, value in given.items() if name in _BOTH}
    return Target(_with(base, given), _with(base, common), schema, **ours)  # type: ignore[arg-type]


def check_schema(schema: str) -> None:
    """InvalidValue for a name that would need quoting, or that the server reserves."""
    if not _NAME.match(schema):
        raise InvalidValue("schema", f"{schema!r}: lower-case letters, digits and _ expected")
    if schema.startswith("pg_"):
        raise InvalidValue("schema", f"{schema!r}: names with pg_ are the server's own")


def _with(base: str, options: dict[str, str]) -> str:
    query = urlencode(options, quote_via=quote, safe="/")
    return f"{base}?{query}" if query else base


def take_apart(url: str, field: str = "url") -> SplitResult:
    """The parts of a url; InvalidValue when it is not clear where each of them ends.

    Whatever stands at a wrong place may be a password, so none is shown; nor does a driver see it,
    whose error would quote it.
    """
    wrong = InvalidValue(field, f"it cannot be taken apart; write {FORM}; {CODES}")
    if not url.isprintable() or " " in url or _BAD_PERCENT.search(url):
        raise wrong
    try:
        unquote(url, errors="strict")
        parts = urlsplit(url)
    except ValueError:
        parts = None
    if parts is None or "#" in url or "@" in parts.path + parts.query:
        raise wrong
    if parts.netloc.count("@") > 1 or not all("=" in one for one in parts.query.split("&") if one):
        raise wrong
    for host in parts.netloc.rpartition("@")[2].split(","):
        behind, _, port = host.rpartition("]")[2].partition(":")
        if "]" in host and behind:
            raise wrong
        if port and not (port.isdecimal() and 0 < int(port) < 65536):
            raise InvalidValue(field, f"a port from 1 to 65535 expected; write {FORM}; {CODES}")
    return parts


def _size(text: object) -> int:
    number = _number(text, "pool_size")
    if number != int(number):
        raise InvalidValue("pool_size", f"a whole number expected, got {text!r}")
    return int(number)


def _seconds(given: dict[str, str], field: str, default: float) -> float:
    return _number(given.pop(field, default), field)


def _number(text: object, field: str) -> float:
    try:
        number = float(str(text))
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise InvalidValue(field, f"a positive number expected, got {text!r}")
    return number


def _said(text: str, field: str) -> bool:
    if text not in _SAYS:
        raise InvalidValue(field, f"yes or no expected, got {text!r}")
    return _SAYS[text]
