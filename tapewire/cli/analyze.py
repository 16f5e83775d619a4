"""`tapewire analyze` and `tapewire aggregate`: latency offline, from the journal alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import rich_click

from ..runtime.rundir import find_run, runs_base
from .common import runs_dir_option, warn_missing_streams

if TYPE_CHECKING:
    from rich.console import Console

    from ..journal.analysis import RunAnalysis

__all__ = ["aggregate", "analyze", "print_run_tables"]

_FILE = click.Path(path_type=Path, dir_okay=False)
_warmup_option = click.option(
    "--warmup",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    metavar="CYCLES",
    help="How many valid cycles to leave out at the start of a run.",
)
_json_option = click.option(
    "--json", "json_path", type=_FILE, default=None, metavar="PATH", help="Write the result there as JSON."
)


def print_run_tables(run_dir: str | Path, console: Console | None = None, *, warmup: int = 100) -> None:
    """Analyse one run and print its tables: the stages, the accounts, the wait policy in force.

    Raises what `journal.analysis.analyze` raises.
    """
    from ..bench.report import make_console
    from ..journal.analysis import analyze as analyze_run

    _print_run(analyze_run(run_dir, warmup=warmup)[0].runs[0], console or make_console())


@click.command(cls=rich_click.RichCommand)
@click.argument("run", metavar="RUN")
@_warmup_option
@_json_option
@click.option(
    "--csv", "csv_path", type=_FILE, default=None, metavar="PATH", help="Write every matched cycle there."
)
@runs_dir_option
def analyze(
    run: str, warmup: int, json_path: Path | None, csv_path: Path | None, runs_dir: str | None
) -> None:
    """Latencies of one RUN (a name, a directory or "last"), from its journal alone.

    Works on a finished, a running and a crashed run, and on one copied from another host.

    \b
    tapewire analyze last
    tapewire analyze last --json result.json --csv cycles.csv
    """
    from ..bench.report import make_console, write_json
    from ..journal.analysis import analyze as analyze_run
    from ..journal.analysis import write_csv

    run_dir = find_run(run, runs_base(runs_dir)).path
    warn_missing_streams(run_dir)
    analysis, cycles = analyze_run(run_dir, warmup=warmup)
    console = make_console()
    _print_run(analysis.runs[0], console)
    if json_path is not None:
        write_json(analysis, json_path)
        console.print(f"result: {json_path}", highlight=False)
    if csv_path is not None:
        lines = write_csv(run_dir, cycles, csv_path)
        console.print(f"cycles: {csv_path} ({lines:,} lines)", highlight=False)


@click.command(cls=rich_click.RichCommand)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@_warmup_option
@_json_option
@runs_dir_option
def aggregate(runs: tuple[str, ...], warmup: int, json_path: Path | None, runs_dir: str | None) -> None:
    """Latencies over several RUNs: how each percentile differs from run to run.

    A saved analysis is used where it still matches its journal.

    \b
    tapewire aggregate runs/latency-*
    """
    from rich.console import Console
    from rich.progress import Progress

    from ..bench import report
    from ..journal.aggregate import aggregate_runs

    base = runs_base(runs_dir)
    directories = [find_run(run, base).path for run in runs]
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("analysing", total=len(directories))
        whole = aggregate_runs(directories, warmup=warmup, progress=lambda: progress.advance(task))
    console = report.make_console()
    title = f"depth → first report over {len(whole.runs)} runs"
    report.print_across_runs(console, [run.stages["depth_to_report"] for run in whole.runs], title)
    report.print_stages(console, [run.stages for run in whole.runs])
    report.print_pooled(console, whole)
    report.print_accounts(console, [run.accounts for run in whole.runs])
    for run in {(str(run.wait), str(run.cpu)): run for run in whole.runs}.values():
        report.print_policies(console, run)
    if json_path is not None:
        report.write_json(whole, json_path)
        console.print(f"result: {json_path}", highlight=False)


def _print_run(run: RunAnalysis, console: Console) -> None:
    from ..bench.report import print_accounts, print_policies, print_stages

    console.print(f"run {run.run} ({run.topology}, {run.state})", highlight=False)
    print_stages(console, [run.stages])
    print_accounts(console, [run.accounts])
    print_policies(console, run)
