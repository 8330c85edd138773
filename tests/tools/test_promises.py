"""The promises plugin: what counts as kept, what the matrix says, and what fails a run."""

from __future__ import annotations

import pytest

from ledgerstone.testing import promises

SAMPLE = """
from types import SimpleNamespace

import pytest


@pytest.fixture(params=["memory", "sqlite"])
def backend(request):
    return SimpleNamespace(name=request.param)


@pytest.mark.promise(1)
class TestSessions:
    @pytest.mark.promise(2, 3)
    def test_class_and_function_marks_add_up(self, backend):
        pass

    @pytest.mark.promise(4)
    def test_broken_on_sqlite(self, backend):
        assert backend.name == "memory"


@pytest.mark.promise(4)
def test_also_four(backend):
    pass


@pytest.mark.promise(44)
def test_skipped(backend):
    pytest.skip("not here")


@pytest.mark.promise(44, 45)
def test_skipped_on_sqlite_only(backend):
    if backend.name == "sqlite":
        pytest.skip("not here")


@pytest.mark.promise(201)
def test_without_a_backend():
    pass


@pytest.mark.promise(5)
@pytest.mark.xfail(strict=False, reason="not yet")
def test_expected_to_fail(backend):
    raise AssertionError


@pytest.mark.promise(3)
def test_teardown_fails(backend, request):
    if backend.name == "memory":
        request.addfinalizer(lambda: 1 / 0)
"""
# By the sample: 1 is broken on sqlite by test_broken_on_sqlite, since the class carries it.
KEPT = {"memory": "1-2,4,44-45,201", "sqlite": "2-3,201"}


@pytest.fixture(autouse=True)
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is under test: importing the others takes longer than the sample runs."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, *arguments: str, sample: str = SAMPLE) -> pytest.RunResult:
    pytester.makepyfile(sample)
    plugins = ("-p", "ledgerstone.testing.promises", "-p", "xdist.plugin")
    return pytester.runpytest(*plugins, *arguments)


def last_lines(result: pytest.RunResult, count: int) -> list[str]:
    return [line for line in result.outlines if line][-count:]


def missing(result: pytest.RunResult, backend: str) -> set[int]:
    (line,) = (x for x in result.outlines if x.startswith(f"missing on {backend}: "))
    return promises.parse_numbers(line.partition(": ")[2])


@pytest.mark.parametrize("workers", ["0", "2"])
def test_matrix(pytester: pytest.Pytester, workers: str) -> None:
    result = run(pytester, "--promises", "-n", workers)
    assert last_lines(result, 2) == ["memory 6/230", "sqlite 3/230"]
    everything = set(range(1, 231))
    for backend, kept in KEPT.items():
        assert missing(result, backend) == everything - promises.parse_numbers(kept)
    result.stdout.fnmatch_lines(["promises *memory*sqlite", "A sessions *3/43*2/43"])


@pytest.mark.parametrize("workers", ["0", "2"])
def test_required_and_missing_fails_the_run(pytester: pytest.Pytester, workers: str) -> None:
    sample = "import pytest\n@pytest.mark.promise(1)\ndef test_one(): pass\n"
    arguments = ("-n", workers, "--promises-require", "1-3,9", "--promises-backends")
    result = run(pytester, *arguments, "memory,sqlite", sample=sample)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["required but missing on memory: 2-3,9", "required but missing on sqlite: 2-3,9"]
    )


@pytest.mark.parametrize("workers", ["0", "2"])
def test_required_and_kept_passes(pytester: pytest.Pytester, workers: str) -> None:
    sample = "import pytest\n@pytest.mark.promise(1)\ndef test_one(): pass\n"
    arguments = ("--promises", "--promises-require", "1", "--promises-backends", "memory")
    result = run(pytester, "-n", workers, *arguments, sample=sample)
    assert result.ret == pytest.ExitCode.OK
    assert last_lines(result, 1) == ["memory 1/230"]


def test_a_required_promise_is_missing_when_nothing_ran(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--promises-require", "7", "-k", "nothing_of_this_name")
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_setup_failure_speaks_against_every_backend(pytester: pytest.Pytester) -> None:
    sample = SAMPLE + "\n@pytest.mark.promise(2)\ndef test_two(absent, backend): pass\n"
    result = run(pytester, "--promises", sample=sample)
    assert 2 in missing(result, "memory")
    assert 2 in missing(result, "sqlite")


def test_silent_without_its_options(pytester: pytest.Pytester) -> None:
    result = run(pytester)
    assert "/230" not in result.stdout.str()


@pytest.mark.parametrize("number", ["0", "231", "'44'"])
def test_a_promise_that_does_not_exist_fails_its_test(
    pytester: pytest.Pytester, number: str
) -> None:
    sample = f"import pytest\n@pytest.mark.promise({number})\ndef test_one(): pass\n"
    result = run(pytester, sample=sample)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*the contract has no promise*"])


@pytest.mark.parametrize("text", ["0-3", "229-231", "x", "1-y"])
def test_a_range_that_makes_no_sense_is_a_usage_error(text: str) -> None:
    with pytest.raises(pytest.UsageError):
        promises.parse_numbers(text)


def test_numbers_are_read_and_written() -> None:
    assert promises.parse_numbers("1-3, 7,9-9") == {1, 2, 3, 7, 9}
    assert promises.format_numbers({9, 1, 3, 2, 7}) == "1-3,7,9"
    assert promises.parse_numbers("") == set()


def test_the_areas_cover_the_contract_without_a_gap() -> None:
    numbers = [n for _, a, b in promises.AREAS.values() for n in range(a, b + 1)]
    assert numbers == list(range(1, promises.PROMISES_TOTAL + 1))
