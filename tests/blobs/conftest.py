"""Object stores that run as long as the tests of one worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.blobs.servers import Server, rclone, seaweedfs


@pytest.fixture(scope="session")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with seaweedfs(tmp_path_factory.mktemp("weed")) as server:
        yield server


@pytest.fixture(scope="session")
def careless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that lets everybody win."""
    with rclone(tmp_path_factory.mktemp("rclone")) as server:
        yield server


@pytest.fixture
def at_weed(weed: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The environment of a program that uses it."""
    use(weed, monkeypatch)
    return weed


def use(server: Server, monkeypatch: pytest.MonkeyPatch, who: str = "worker") -> None:
    for name, value in server.environment(who).items():
        monkeypatch.setenv(name, value)
