"""What `tapewire run` says at the end: how the run went, where it is, what it did and how fast."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from ..runtime.finish import RunSummary
from ..runtime.launch import RunningRun, RunResult
from ..runtime.rundir import RunDir
from ..runtime.watch import tail_lines
from .live_view import counters_table

__all__ = ["as_dict", "print_report", "read_summary"]

LOG_LINES = 12
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
    if summary is not None:
        console.print(counters_table(summary.processes))


def _read_json(run: RunDir) -> Any:
    try:
        return msgspec.json.decode(run.input_path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
