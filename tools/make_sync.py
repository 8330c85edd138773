"""Write the blocking half of the API from the async one.

`src/ledgerstone/api/*.py` is the source, `src/ledgerstone/api_sync/*.py` the result, word by word:
`async` and `await` fall away and the words of `WORDS` are replaced, in code as well as in strings
and comments, so that `__all__`, annotations in quotes and documentation name the right class.

Pairs of files are written by hand and never translated: `x_async.py` and its twin `x_blocking.py`,
both in api/. Importing from the first becomes importing from the second.

It runs when the package is built or installed (hatch_build.py) and before every lint and test; the
result is not in the repository. It writes what changed and removes what has no source.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# Generated from api/{name} by tools/make_sync.py: edit that, then run `make sync`.\n"
HEADER_START = "# Generated from api/"

# Every other name that starts with `Async` and a capital just loses that prefix. A word that is
# listed here and stands nowhere in api/ is an error: the table must not rot.
WORDS = {
    "AbstractAsyncContextManager": "AbstractContextManager",
    "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "awrite": "write",
    "awrite_many": "write_many",
    "aread": "read",
    "achanged": "changed",
    "ajoin": "join",
    "anear": "near",
}
# A young api/ does not need all of the vocabulary yet; it is judged above this many files.
FEW_FILES = 3

WORD = re.compile(r"[A-Za-z_]\w*")
ASYNC_PREFIX = re.compile(r"^(_*)Async(?=[A-Z])")
# In prose `await` may be an ordinary word; before a call it is code.
KEYWORDS = re.compile(r"\basync (?=(?:def|with|for)\b)|\bawait (?=[\w.]*\()")
IMPORT = re.compile(r"^( *from )(\S+)( import )(.*)$")
API_PACKAGES = {".", "..api", "ledgerstone.api"}
ABSOLUTE_API = re.compile(r"^(ledgerstone\.|\.\.)api(?=\.|$)")


class CannotTranslate(Exception):
    """The source says something that has no blocking twin by mere substitution."""


@dataclass
class Translator:
    """Translates files one by one and remembers which words of the table it met."""

    used: set[str] = field(default_factory=set)

    def translate(self, source: str) -> str:
        """The blocking twin of one file."""
        return "\n".join(self._line(line) for line in source.split("\n"))

    def _line(self, line: str) -> str:
        if line.strip().startswith("import ledgerstone.api"):
            raise CannotTranslate("write `from ledgerstone.api... import`, not `import`")
        found = IMPORT.match(line)
        if found is None:
            return self._text(line)
        start, module, middle, names = found.groups()
        if module in API_PACKAGES and re.search(r"_async\b", names):
            raise CannotTranslate(f"import the names from the module, not the module: {names}")
        return start + blocking_module(module) + middle + self._text(names)

    def _text(self, text: str) -> str:
        return WORD.sub(lambda match: self._word(match[0]), KEYWORDS.sub("", text))

    def _word(self, word: str) -> str:
        if word in WORDS:
            self.used.add(word)
            return WORDS[word]
        return ASYNC_PREFIX.sub(r"\1", word)


def blocking_module(module: str) -> str:
    """Where the blocking half finds what the async half imports from `module`."""
    if module.endswith("_async"):
        # Hand-written twins stay in api/, so a neighbour there is no neighbour in api_sync/.
        beside = re.sub(r"^\.(?=\w)", "..api.", module)
        return beside.removesuffix("_async") + "_blocking"
    return ABSOLUTE_API.sub(r"\1api_sync", module)


def is_translated(path: Path) -> bool:
    return not path.stem.endswith(("_async", "_blocking"))


def translate_folder(source: Path, translator: Translator) -> dict[str, str]:
    """The text of every generated file, by name."""
    results: dict[str, str] = {}
    for path in filter(is_translated, sorted(source.glob("*.py"))):
        try:
            body = translator.translate(path.read_text(encoding="utf-8"))
            compile(body, path, "exec", dont_inherit=True)  # Refuses an `await` that is left over.
        except (CannotTranslate, SyntaxError) as error:
            raise CannotTranslate(f"{path}: {error}") from error
        results[path.name] = HEADER.format(name=path.name) + body
    return results


def differences(target: Path, expected: dict[str, str]) -> dict[Path, str | None]:
    """What must be written (path to text) and what must go (path to None)."""
    changes: dict[Path, str | None] = {}
    for name, text in expected.items():
        path = target / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            changes[path] = text
    for path in sorted(target.glob("*.py")):
        if path.name in expected:
            continue
        if not path.read_text(encoding="utf-8").startswith(HEADER_START):
            raise CannotTranslate(f"{path}: only generated files live here, and this is not one")
        changes[path] = None
    return changes


def apply(changes: dict[Path, str | None]) -> None:
    for path, text in changes.items():
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def unused_words(translator: Translator, file_count: int) -> list[str]:
    return sorted(WORDS.keys() - translator.used) if file_count > FEW_FILES else []


def make(package: Path) -> list[str]:
    """Bring `package`/api_sync up to date; words of the table that stand nowhere in api/."""
    source, target = package / "api", package / "api_sync"
    translator = Translator()
    expected = translate_folder(source, translator)
    apply(differences(target, expected))
    return unused_words(translator, len(expected))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    package = ROOT / "src" / "ledgerstone"
    parser.add_argument("--package", type=Path, default=package, help="the folder with api/")
    options = parser.parse_args()
    try:
        unused = make(options.package)
    except CannotTranslate as error:
        print(error, file=sys.stderr)
        return 1
    for word in unused:
        print(f"unused word in WORDS of tools/make_sync.py: {word}", file=sys.stderr)
    return 1 if unused else 0


if __name__ == "__main__":
    sys.exit(main())
