"""The verbs as one program, and what every error of theirs looks like to a person."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

import typer

from ledgerstone.cli import (
    backup,
    copy,
    demo,
    doctor,
    executions,
    gc,
    import_,
    inbox,
    migrate,
    partition,
    restore,
    restored,
    root,
    runs,
    sessions,
    show,
    tree,
    usage,
    verify,
    work,
)
from ledgerstone.cli.failures import INTERRUPTED, MISUSE, OK, PIPE_CLOSED, CliError, explain
from ledgerstone.cli.output import visible
from ledgerstone.errors import LedgerstoneError

PROGRAM = "ledgerstone"

app = typer.Typer(
    name=PROGRAM,
    help="Look into a Ledgerstone store: the durable state of AI agents.",
    epilog="Example: ledgerstone demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (
    demo,
    sessions,
    runs,
    work,
    usage,
    show,
    tree,
    verify,
    root,
    backup,
    copy,
    import_,
    gc,
    migrate,
    partition,
    restore,
    restored,
    doctor,
):
    # The module of `import` cannot have its name.
    app.command(verb.__name__.rpartition(".")[2].rstrip("_"), epilog=verb.EXAMPLE)(verb.run)
app.add_typer(inbox.app)
app.add_typer(executions.app)


def run(arguments: list[str]) -> int:
    """Carry a command line out; answers the exit code, prints at most one line on errors."""
    _survive_any_text()
    try:
        code = _carry_out(arguments)
        sys.stdout.flush()
    except CliError as error:
        return _complain(str(error), error.exit_code)
    except LedgerstoneError as error:
        failure = explain(error)
        return _complain(str(failure), failure.exit_code)
    except BrokenPipeError:
        return _hang_up()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        _complain("interrupted", INTERRUPTED)
    return code


def _carry_out(arguments: list[str]) -> int:
    command = typer.main.get_command(app)
    try:
        answer: Any = command.main(arguments, prog_name=PROGRAM, standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except Exception as error:
        # What typer raises for a bad command line has no public common class.
        say = getattr(error, "format_message", None)
        if say is None:
            raise
        text = str(say())
        if not text:
            # No verb at all: the help was printed instead.
            return MISUSE
        raise CliError(f"{text.rstrip('.')}; see `{_help(error)}`") from None
    return answer if isinstance(answer, int) else OK


def _help(error: Exception) -> str:
    path = getattr(getattr(error, "ctx", None), "command_path", PROGRAM)
    return f"{path} --help"


def _complain(text: str, exit_code: int) -> int:
    line = visible(" ".join(text.split()))
    with contextlib.suppress(OSError):
        print(f"{PROGRAM}: {line}", file=sys.stderr, flush=True)
    return exit_code


def _hang_up() -> int:
    """The reader of our output left; nothing more can be said, not even by the interpreter."""
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    return PIPE_CLOSED


def _survive_any_text() -> None:
    """Stored text may hold what a terminal cannot show: escape it instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
