"""What `tapewire run` says at the end: how the run went, where it is, what it did and how fast."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from ..journal.errors import TapewireError
from ..runtime.finish import RunSummary
from ..runtime.launch import RunningRun, RunResult
from ..runtime.rundir import RunDir
from ..runtime.watch import tail_lines
from ..whole_table import print_whole
from .analyze import print_run_tables
from .ledger import print_ledger_summary
from .live_view import counters_table

__all__ = ["as_dict", "print_report", "read_summary"]

LOG_LINES = 12
# The ledger is rebuilt frame by frame; beyond this the operator should ask for it.
LEDGER_ORDERS_MAX = 100_000
# Wide enough that a table written to a file or a pipe is never folded.
PIPE_WIDTH = 200


def read_summary(run: RunDir) -> RunSummary | None:
    """`summary.json` of a run; None where it has none yet."""
    try:
        return msgspec.json.decode(run.summary_path.read_bytes(), type=RunSummary)
    except (OSError, msgspec.DecodeError):
        return None


def as_dict(running: RunningRun, result: RunResult) -> dict[str, Any]:
    """The same for `--json`."""
    summary = read_summary(running.run)
    return {
        "run": running.name,
        "run_dir": str(running.run.path),
        "state": result.state,
        "exit_status": result.exit_status,
        "problems": result.problems,
        "start_s": running.start_s,
        "processes": {} if summary is None else summary.processes,
        "input": _read_json(running.run),
    }


def print_report(running: RunningRun, result: RunResult) -> None:
    """Print it; logs of processes that broke down go to standard error."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)
    run = running.run
    for name in result.failed:
        log = run.logs_dir / f"{name}.log"
        click.echo(f"--- the end of {log}", err=True)
        for line in tail_lines(log, LOG_LINES):
            click.echo(line, err=True)
    console.print(f"run {running.name}: {result.state}")
    console.print(f"run directory: {run.path}", soft_wrap=True)
    if result.state == "masterless":
        return
    summary = read_summary(run)
    if summary is None:
        return
    print_whole(console, counters_table(summary.processes))
    _print_input(running)
    orders = sum(counters["orders"] for counters in summary.processes.values())
    if orders == 0:
        return
    console.print()
    try:
        if orders <= LEDGER_ORDERS_MAX:
            print_ledger_summary(run.path)
        else:
            console.print(f"positions and PnL: tapewire positions {running.name}")
        console.print()
        print_run_tables(run.path, console)
    except TapewireError as error:
        # A run that broke down may have recorded too little for it; that is no second failure.
        console.print(f"no tables of this run: {error}", soft_wrap=True)


def _print_input(running: RunningRun) -> None:
    """What became of the recording's lines, where the run read one."""
    from ..runtime.market.accounting import Accounting, accounting_lines

    try:
        accounting = msgspec.json.decode(running.run.input_path.read_bytes(), type=Accounting)
    except (OSError, msgspec.DecodeError):
        return
    click.echo()
    for line in accounting_lines(accounting, running.run.manifest().instrument_list()):
        click.echo(line)


def _read_json(run: RunDir) -> Any:
    try:
        return msgspec.json.decode(run.input_path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
