"""The command line. A command's module is imported when that command runs, and not before.

So `tapewire --help` and a mistyped option answer at once. A `TapewireError` is one line on stderr and
its exit status, and so is what the system refuses; anything else that escapes is a bug of ours and keeps
its traceback.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click
import rich_click

__all__ = ["COMMANDS", "cli", "main", "run_cli"]

# name → (module here, attribute, one line for the list of commands)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "run": ("run", "run", "Start a topology and watch it."),
    "stop": ("stop", "stop", "Stop a run in order, also when its master is dead."),
    "runs": ("runs", "runs", "List runs; prune what dead ones left behind."),
    "bench": ("bench", "bench", "Measure: latency against its floor, the journal."),
    "analyze": ("analyze", "analyze", "Latencies of one run, from its journal alone."),
    "aggregate": ("analyze", "aggregate", "Latencies over many runs."),
    "journal": ("journal", "journal", "Read what a run recorded."),
    "positions": ("ledger", "positions", "Positions and PnL of a run."),
    "orders": ("ledger", "orders", "Orders of a run and how they ended."),
}

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


class LazyGroup(rich_click.RichGroup):
    """A group whose commands are known by name, and imported when one of them is to run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A stand-in with the command's name and line: enough for help and for completion."""
        if cmd_name not in COMMANDS:
            return None
        return rich_click.RichCommand(name=cmd_name, short_help=COMMANDS[cmd_name][2])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command itself, imported now."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COMMANDS)}"
            ctx.fail(f"no command {name!r} — {hint}")
        resolved_name, stand_in, rest = super().resolve_command(ctx, args)
        if resolved_name is None or stand_in is None:
            return resolved_name, stand_in, rest
        return resolved_name, load_command(resolved_name), rest


def load_command(name: str) -> click.Command:
    """Import the command `name`."""
    module, attribute, _ = COMMANDS[name]
    command: click.Command = getattr(importlib.import_module(f".{module}", __name__), attribute)
    return command


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from .. import __version__

        click.echo(f"tapewire {__version__}")
        ctx.exit()


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Print it."
)
def cli() -> None:
    """A journal-based trading runtime: pinned processes over memory-mapped, append-only journals.

    \b
    tapewire run demo --for 10s        start a topology, watch it, stop it
    tapewire positions last            what it earned
    tapewire analyze last              how fast it was
    """


def run_cli(arguments: Sequence[str]) -> int:
    """Run one command line (without the program's name) and return its exit status."""
    try:
        status = cli.main(args=list(arguments), prog_name="tapewire", standalone_mode=False)
        sys.stdout.flush()  # a pipe that was closed shows here, and not after we have left
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.UsageError as error:
        where = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
        return _fail(f"{_sentence(error.format_message())}{where}", EXIT_USAGE)
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except BrokenPipeError:
        _drop_output()
        return EXIT_BROKEN_PIPE
    except OSError as error:  # the system's no: a full disk under the output, a file of another user
        _drop_output()
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return _fail(f"{where}{error.strerror or error}", 1)
    except Exception as error:
        from ..journal.errors import TapewireError

        if not isinstance(error, TapewireError):
            raise
        return _fail(str(error), error.exit_status)
    return status if isinstance(status, int) else 0


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point of `tapewire`: run the command line of this process and leave."""
    _mend_streams()
    try:
        os.getcwd()
    except OSError as error:
        sys.exit(_fail(f"the working directory: {error.strerror} — cd to one that is there", EXIT_USAGE))
    sys.exit(run_cli(sys.argv[1:] if arguments is None else arguments))


def _mend_streams() -> None:
    """Closed standard streams lead nowhere, so that no page or pipe of ours gets their numbers; what the
    terminal's encoding lacks is printed as "?" and ends nothing."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _drop_output() -> None:
    """Python would flush what is left once again on its way out, and complain."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, status: int) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return status


def _sentence(message: str) -> str:
    """Click's messages in the manner of ours: one line, no full stop."""
    return message.strip().rstrip(".")
