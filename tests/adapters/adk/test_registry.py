"""Service uris: what `adk web --session_service_uri=ledgerstone:///agent.db` opens."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.adk.cli import service_registry
from google.adk.cli.service_registry import ServiceRegistry
from google.adk.cli.utils import service_factory

from ledgerstone import Store
from ledgerstone.adapters import adk
from ledgerstone.adapters.adk import (
    LedgerArtifactService,
    LedgerMemoryService,
    LedgerSessionService,
    register,
    registry,
)
from ledgerstone.adapters.versions import UntestedVersionWarning
from ledgerstone.errors import InvalidValue, NotADatabase, NotSupported
from tests.adapters.adk.scripted import KEY, run


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    for store in registry._stores.values():
        store.close()
    registry._stores.clear()


@pytest.mark.parametrize(
    ("uri", "url", "tenant"),
    [
        ("ledgerstone:///agent.db", "sqlite:///agent.db", "default"),
        ("ledgerstone:////data/agent.db?tenant=a", "sqlite:////data/agent.db", "a"),
        ("ledgerstone:///agent#1.db?tenant=a#b", "sqlite:///agent#1.db", "a#b"),
        ("ledgerstone+sqlite:///agent.db", "sqlite:///agent.db", "default"),
        ("ledgerstone+memory://", "memory://", "default"),
        ("ledgerstone+file:///folder", "file:///folder", "default"),
        (
            "ledgerstone+postgresql://me:pw@host:5/db?sslmode=require&tenant=b",
            "postgresql://me:pw@host:5/db?sslmode=require",
            "b",
        ),
        (
            "ledgerstone+postgresql://host/db?sslrootcert=/my%20own/x%2By.pem",
            "postgresql://host/db?sslrootcert=%2Fmy%20own%2Fx%2By.pem",
            "default",
        ),
    ],
)
def test_what_a_uri_says(uri: str, url: str, tenant: str) -> None:
    assert registry._split(uri) == (url, tenant)


def test_three_services_on_one_store(tmp_path: Path) -> None:
    known = ServiceRegistry()
    register(known)
    uri = f"ledgerstone:///{tmp_path / 'agent.db'}"
    sessions = known.create_session_service(uri, agents_dir="x")
    artifacts = known.create_artifact_service(uri)
    memory = known.create_memory_service(uri + "?tenant=acme")
    assert isinstance(sessions, LedgerSessionService)
    assert isinstance(artifacts, LedgerArtifactService)
    assert isinstance(memory, LedgerMemoryService)
    assert len(registry._stores) == 1
    run(sessions.create_session(**KEY, session_id="s"))
    for store in registry._stores.values():
        store.close()
    registry._stores.clear()
    with Store.open(tmp_path / "agent.db") as store:
        assert store.sessions.count() == 1


def test_in_the_folder_of_the_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the adk command does it: services.py is imported, then the uri is looked up."""
    text = """
        from ledgerstone.adapters.adk import register

        register()
    """
    (tmp_path / "services.py").write_text(textwrap.dedent(text))
    monkeypatch.setattr(service_registry, "_service_registry_instance", None)
    monkeypatch.syspath_prepend(str(tmp_path))
    service_registry.load_services_module(str(tmp_path))
    uri = f"ledgerstone:///{tmp_path / 'agent.db'}"
    sessions = service_factory.create_session_service_from_options(
        base_dir=tmp_path, session_service_uri=uri
    )
    artifacts = service_factory.create_artifact_service_from_options(
        base_dir=tmp_path, artifact_service_uri=uri
    )
    memory = service_factory.create_memory_service_from_options(
        base_dir=tmp_path, memory_service_uri=uri
    )
    assert isinstance(sessions, LedgerSessionService)
    assert isinstance(artifacts, LedgerArtifactService)
    assert isinstance(memory, LedgerMemoryService)


def test_a_version_that_was_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgerstone.adapters.versions.version", lambda _: "3.0.0")
    with pytest.warns(UntestedVersionWarning, match=r"google-adk 3\.0\.0 is newer .*2\.13 up to"):
        importlib.reload(adk)
    monkeypatch.setattr("ledgerstone.adapters.versions.version", lambda _: "2.12.9")
    with pytest.raises(NotSupported, match=r"google-adk 2\.12\.9 .*ledgerstone\[adk\]"):
        importlib.reload(adk)


def test_bad_uris(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"ledgerstone:///agent\.db"):
        registry.store_at("sqlite:///agent.db")
    (tmp_path / "x.db").write_text("not a database, but long enough to be looked at" * 99)
    with pytest.raises(NotADatabase):
        registry.store_at(f"ledgerstone:///{tmp_path / 'x.db'}")
    with pytest.raises(InvalidValue, match="tenant"):
        registry.store_at("ledgerstone+memory://?tenant=")
