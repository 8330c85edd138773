"""Service uris for the `adk` command: one store for all services that name the same one.

    ledgerstone:///agent.db                   a SQLite file in the working directory
    ledgerstone:////data/agent.db             by its full path
    ledgerstone+postgresql://host/database    any url of a store, behind "ledgerstone+"
    ...?tenant=acme                           of another tenant than "default"

In services.py beside the agents: `from ledgerstone.adapters.adk import register; register()`.
"""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from google.adk.cli.service_registry import ServiceRegistry, get_service_registry

from ledgerstone.adapters.adk.artifacts import LedgerArtifactService
from ledgerstone.adapters.adk.memory import LedgerMemoryService
from ledgerstone.adapters.adk.sessions import LedgerSessionService
from ledgerstone.api_sync.store import TENANT, Store
from ledgerstone.errors import InvalidValue

SCHEME = "ledgerstone"
KINDS = ("sqlite", "file", "memory", "postgresql", "postgres")

_stores: dict[str, Store] = {}
_opening = threading.Lock()


def register(registry: ServiceRegistry | None = None) -> None:
    """Make ledgerstone: uris known to ADK, for sessions, artifacts and memory."""
    known = registry or get_service_registry()
    for scheme in (SCHEME, *(f"{SCHEME}+{kind}" for kind in KINDS)):
        known.register_session_service(scheme, _factory(LedgerSessionService))
        known.register_artifact_service(scheme, _factory(LedgerArtifactService))
        known.register_memory_service(scheme, _factory(LedgerMemoryService))


def _factory(service: Any) -> Any:
    def make(uri: str, **_: Any) -> Any:
        return service(store_at(uri))

    return make


def store_at(uri: str) -> Store:
    """The store that a service uri names.

    It stays open as long as the process lives: ADK never says when it is done with a service.
    """
    url, tenant = _split(uri)
    with _opening:
        if url not in _stores:
            _stores[url] = Store.open(url, tenant=None)
        return _stores[url].for_tenant(tenant)


def _split(uri: str) -> tuple[str, str]:
    """The url of the store, and the tenant."""
    parts = urlsplit(uri, allow_fragments=False)  # A "#" is of the path.
    if parts.scheme == SCHEME:
        scheme = "sqlite"
    elif parts.scheme.startswith(f"{SCHEME}+"):
        scheme = parts.scheme.removeprefix(f"{SCHEME}+")
    else:
        raise InvalidValue("uri", f"{SCHEME}:///agent.db or {SCHEME}+<url of a store> expected")
    asked = parse_qsl(parts.query, keep_blank_values=True)
    tenant = dict(asked).get("tenant", TENANT)
    rest = [(key, value) for key, value in asked if key != "tenant"]
    query = urlencode(rest, quote_via=quote)  # For a database a plus is no space.
    # By hand: urlunsplit takes the slashes of an absolute path for those of a missing host.
    return f"{scheme}://{parts.netloc}{parts.path}{'?' if query else ''}{query}", tenant
