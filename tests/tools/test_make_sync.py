"""tools/make_sync.py: the blocking face says what the async face says, and never goes stale."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "make_sync.py"


def load_script() -> ModuleType:
    """The script is no package; it is loaded from its file, as a person runs it."""
    spec = importlib.util.spec_from_file_location("make_sync", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_sync"] = module
    spec.loader.exec_module(module)
    return module


make_sync = load_script()


def translate(source: str) -> str:
    result: str = make_sync.Translator().translate(source)
    return result


STORE = '''"""The store: `async with AsyncStore.open(url) as store`, then `await store.close()`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from ledgerstone.api.beat_async import Heartbeat
from ledgerstone.api.names import Sessions
from ledgerstone.records import Session

__all__ = ["AsyncStore"]


class AsyncStore:
    """An AsyncStore keeps what it is told."""

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        async with self.lock:
            await self.backend.awrite(1)

    async def all(self) -> AsyncIterator[Session]:
        async for row in self.backend.aread():
            yield row
        found = [x async for x in self.backend.aread() if await x.ok()]
        print(f"kept {await self.count()} of {{all}}", found)

    async def hold(self) -> AsyncIterator[Heartbeat]:
        try:
            yield Heartbeat(self)
        except StopAsyncIteration:
            return
'''

EXPECTED = '''# Generated from api/store.py by tools/make_sync.py: edit that, then run `make sync`.
"""The store: `with Store.open(url) as store`, then `store.close()`."""

from __future__ import annotations

from collections.abc import Iterator, Iterator

from ledgerstone.api.beat_blocking import Heartbeat
from ledgerstone.api_sync.names import Sessions
from ledgerstone.records import Session

__all__ = ["Store"]


class Store:
    """An Store keeps what it is told."""

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        with self.lock:
            self.backend.write(1)

    def all(self) -> Iterator[Session]:
        for row in self.backend.read():
            yield row
        found = [x for x in self.backend.read() if x.ok()]
        print(f"kept {self.count()} of {{all}}", found)

    def hold(self) -> Iterator[Heartbeat]:
        try:
            yield Heartbeat(self)
        except StopIteration:
            return
'''

NAMES = "class Sessions:\n    async def get(self) -> None:\n        await self.x.get()\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A little package with an api/ of two translated files and one hand-written pair."""
    api = tmp_path / "ledgerstone" / "api"
    api.mkdir(parents=True)
    (api / "store.py").write_text(STORE)
    (api / "names.py").write_text(NAMES)
    (api / "beat_async.py").write_text("import asyncio\n\n\nclass Heartbeat: ...\n")
    (api / "beat_blocking.py").write_text("import threading\n\n\nclass Heartbeat: ...\n")
    return api.parent


def run(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--package", str(package), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_whole_file_becomes_its_blocking_twin(package: Path) -> None:
    done = run(package)
    assert (done.returncode, done.stderr) == (0, "")
    assert (package / "api_sync" / "store.py").read_text() == EXPECTED


def test_hand_written_twins_are_left_where_they_are(package: Path) -> None:
    run(package)
    assert sorted(p.name for p in (package / "api_sync").iterdir()) == ["names.py", "store.py"]


def test_what_was_changed_by_hand_is_written_anew(package: Path) -> None:
    run(package)
    edited = package / "api_sync" / "names.py"
    before = edited.read_text()
    edited.write_text(before + "# by hand\n")
    assert run(package).returncode == 0
    assert edited.read_text() == before


def test_a_file_without_a_source_is_removed(package: Path) -> None:
    run(package)
    (package / "api" / "names.py").unlink()
    run(package)
    assert not (package / "api_sync" / "names.py").exists()


def test_a_hand_written_file_in_the_generated_folder_is_never_removed(package: Path) -> None:
    run(package)
    mine = package / "api_sync" / "mine.py"
    mine.write_text("precious = 1\n")
    done = run(package)
    assert done.returncode == 1
    assert "mine.py" in done.stderr
    assert mine.exists()


def test_nothing_to_do_without_an_api_folder(tmp_path: Path) -> None:
    assert run(tmp_path).returncode == 0


def test_an_unused_word_is_an_error_once_the_api_has_grown(package: Path) -> None:
    for name in ("a", "b"):
        (package / "api" / f"{name}.py").write_text("x = 1\n")
    done = run(package)
    assert done.returncode == 1
    assert "__anext__" in done.stderr
    assert "__aenter__" not in done.stderr


def test_a_syntax_error_names_the_file(package: Path) -> None:
    (package / "api" / "names.py").write_text("def broken(:\n    (\n")
    done = run(package)
    assert done.returncode == 1
    assert "names.py" in done.stderr


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from .names import X\n", "from .names import X\n"),
        ("from .beat_async import X\n", "from ..api.beat_blocking import X\n"),
        ("from ..api.beat_async import X\n", "from ..api.beat_blocking import X\n"),
        ("from ..api.names import AsyncX\n", "from ..api_sync.names import X\n"),
        ("from ..api_keys import x\n", "from ..api_keys import x\n"),
        ("from ledgerstone.apis import x\n", "from ledgerstone.apis import x\n"),
        ("from ledgerstone.api import AsyncStore\n", "from ledgerstone.api_sync import Store\n"),
        ("import json as aread_json\n", "import json as aread_json\n"),
        (
            "def f():\n    from .x_async import Y\n",
            "def f():\n    from ..api.x_blocking import Y\n",
        ),
        ("def f():\n    yield from x_async\n", "def f():\n    yield from x_async\n"),
    ],
)
def test_imports(source: str, expected: str) -> None:
    assert translate(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("return await (\n    x()\n)\n", "return (\n    x()\n)\n"),
        ("y = (await x()).z\n", "y = (x()).z\n"),
        ("_AsyncThing = Asynchronous\n", "_Thing = Asynchronous\n"),
        ("awaiting = 'never await twice'\n", "awaiting = 'never await twice'\n"),
        ("# an AsyncStore\nx = 1\n", "# an Store\nx = 1\n"),
        ("x = 'é\\x0c'; await f()  # AsyncX\n", "x = 'é\\x0c'; f()  # X\n"),
        ('x = "a\x0cb"; await f()\n', 'x = "a\x0cb"; f()\n'),
        ("x = 1\n# last, await go()\n", "x = 1\n# last, go()\n"),
    ],
)
def test_code_and_text(source: str, expected: str) -> None:
    assert translate(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "import ledgerstone.api.names\n",
        "from . import beat_async\n",
        "from ledgerstone.api import beat_async\n",
    ],
)
def test_what_cannot_be_translated_is_refused(source: str) -> None:
    with pytest.raises(make_sync.CannotTranslate):
        translate(source)
