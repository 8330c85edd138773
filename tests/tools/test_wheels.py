"""What the two distributions install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
KIT = "ledgerstone/testing/"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels, by the name of their distribution."""
    folder = tmp_path_factory.mktemp("wheels")
    options = ("--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(folder))
    command = [sys.executable, "-m", "pip", "wheel", *options, str(ROOT), str(ROOT / "testing")]
    subprocess.run(command, check=True, capture_output=True)
    return {path.name.split("-")[0]: path for path in folder.glob("*.whl")}


def names(wheel: Path) -> list[str]:
    with ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if ".dist-info/" not in name]


@pytest.mark.slow
def test_the_kit_is_in_its_own_wheel_only(wheels: dict[str, Path]) -> None:
    library, kit = names(wheels["ledgerstone"]), names(wheels["ledgerstone_testing"])
    assert "ledgerstone/api/store.py" in library
    assert "ledgerstone/py.typed" in library
    assert [name for name in library if name.startswith(KIT)] == []
    assert f"{KIT}conformance/turns.py" in kit
    assert [name for name in kit if not name.startswith(KIT)] == []


@pytest.mark.slow
def test_installed_together_they_are_one_package(wheels: dict[str, Path], tmp_path: Path) -> None:
    for wheel in wheels.values():
        with ZipFile(wheel) as archive:
            archive.extractall(tmp_path)
    script = "import ledgerstone.testing.bed as bed, ledgerstone; print(bed.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        env={"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith(str(tmp_path))
