"""`tapewire bench`: each benchmark one command, each beside its floor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
import rich_click

from ..runtime.errors import ConfigError
from .common import runs_dir_option

if TYPE_CHECKING:
    from ..bench.report import BenchResult

Function = TypeVar("Function", bound=Callable[..., Any])

_FILE = click.Path(path_type=Path, dir_okay=False)
_DIRECTORY = click.Path(path_type=Path, file_okay=False)


def _runs_option(default: int) -> Callable[[Function], Function]:
    return click.option(
        "--runs", type=click.IntRange(min=1), default=default, show_default=True, help="How often to repeat."
    )


def _json_option(function: Function) -> Function:
    return click.option(
        "--json",
        "json_path",
        type=_FILE,
        default=None,
        metavar="PATH",
        help="Write the result there as JSON.",
    )(function)


def _out_option(function: Function) -> Function:
    return click.option(
        "--out",
        type=_DIRECTORY,
        default=None,
        metavar="DIR",
        help="Make the run directories and the JSON result below DIR.",
    )(function)


def _set_option(function: Function) -> Function:
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY.PATH=VALUE",
        help="Override a key of the topology, as in `tapewire run`.",
    )(function)


@click.group(cls=rich_click.RichGroup)
def bench() -> None:
    """Measure: each figure beside the least code that could do that job on this machine.

    \b
    tapewire bench latency --runs 5                  the whole topology against a bare relay
    tapewire bench journal                           appends, page rolls, reads
    tapewire bench throughput                        a million events, unpaced
    """


@bench.command(cls=rich_click.RichCommand)
@_runs_option(5)
@click.option(
    "--events", type=click.IntRange(min=1), default=5000, show_default=True, help="Depth events per run."
)
@click.option(
    "--interval-us",
    type=click.IntRange(min=1),
    default=300,
    show_default=True,
    help="Time between two depth events, the mean for poisson.",
)
@click.option(
    "--strategy",
    type=click.Choice(["native", "python"]),
    default="native",
    show_default=True,
    help="Which one.",
)
@click.option(
    "--profile",
    type=click.Choice(["median", "tail"]),
    default="median",
    show_default=True,
    help="The latency topology: yielding on two CPUs, or parked on one.",
)
@click.option(
    "--arrivals",
    type=click.Choice(["constant", "poisson"]),
    default="constant",
    show_default=True,
    help="How the events are spaced.",
)
@click.option(
    "--warmup",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    metavar="CYCLES",
    help="How many valid cycles to leave out at the start of each run.",
)
@click.option(
    "--wait",
    default=None,
    metavar="POLICY",
    help="Wait policy of strategy and venue instead of the topology's.",
)
@click.option(
    "--lingering-floor",
    is_flag=True,
    help="Also a floor whose publisher lingers as ours does: the same schedule.",
)
@click.option("--quick", is_flag=True, help="3 runs of 3,000 events.")
@_set_option
@_json_option
@_out_option
@runs_dir_option
def latency(
    runs: int,
    events: int,
    interval_us: int,
    strategy: Literal["native", "python"],
    profile: Literal["median", "tail"],
    arrivals: Literal["constant", "poisson"],
    warmup: int,
    wait: str | None,
    lingering_floor: bool,
    quick: bool,
    overrides: tuple[str, ...],
    json_path: Path | None,
    out: Path | None,
    runs_dir: str | None,
) -> None:
    """Depth → order → report latency of the whole topology, against a bare relay of three processes.

    Runs alternate floor, ours, floor, ours, ...; what is published first is the ratio of the paired runs.

    \b
    tapewire bench latency
    tapewire bench latency --strategy python --runs 15 --json result.json
    """
    from ..bench import report
    from ..bench.latency import LatencyOptions, measure_latency
    from ..runtime.rundir import runs_base

    if quick:
        runs, events = 3, 3000
    _check_targets(json_path, out / "result" if out is not None else None)
    options = LatencyOptions(
        runs=runs,
        events=events,
        interval_us=interval_us,
        strategy=strategy,
        profile=profile,
        arrivals=arrivals,
        warmup=warmup,
        wait=wait,
        lingering_floor=lingering_floor,
        overrides=overrides,
    )
    with _progress((3 if lingering_floor else 2) * runs + 2) as step:
        measured = measure_latency(options, out or runs_base(runs_dir), progress=step)
    console = report.make_console()
    console.print(
        f"{strategy} strategy, profile {profile}, {runs} runs of {events:,} depth events, "
        f"one per {interval_us} µs ({arrivals})",
        highlight=False,
    )
    summaries = [run.stages["depth_to_report"] for run in measured.runs]
    report.print_across_runs(console, summaries, f"depth → first report over {runs} runs")
    report.print_stages(console, [run.stages for run in measured.runs])
    report.print_ratios(console, measured.ratios, measured.result.results, measured.result.floor)
    if measured.lingering_ratios:
        lingering = measured.result.floor["lingering"]
        name = "the relay floor with a lingering publisher"
        report.print_ratios(console, measured.lingering_ratios, measured.result.results, lingering, name)
    report.print_accounts(console, [run.accounts for run in measured.runs])
    report.print_policies(console, measured.runs[0])
    console.print("floor: yield on the same CPUs, pages pre-faulted, no lingering", highlight=False)
    _print_load(measured.result)
    console.print(f"runs: {measured.run_dirs[0].parent}/{measured.run_dirs[0].name[:-3]}-*", highlight=False)
    _write(measured.result, json_path, out, f"latency-{strategy}.json")


@bench.command(cls=rich_click.RichCommand)
@_runs_option(5)
@click.option(
    "--rolls",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="Page rolls of each kind, in all.",
)
@click.option(
    "--frames",
    type=click.IntRange(min=1000),
    default=2_000_000,
    show_default=True,
    help="Frames to read per run.",
)
@click.option(
    "--page-bytes",
    type=click.IntRange(min=65536, max=1 << 30),
    default=16 * 1024 * 1024,
    show_default=True,
    help="Page size.",
)
@_json_option
@_out_option
def journal(
    runs: int, rolls: int, frames: int, page_bytes: int, json_path: Path | None, out: Path | None
) -> None:
    """What an append, an append that rolls, and a merged read cost.

    \b
    tapewire bench journal --json journal.json
    """
    from ..bench import report
    from ..bench.journal import JournalOptions, measure_journal

    _check_targets(json_path, out / "result" if out is not None else None)
    options = JournalOptions(runs=runs, rolls=rolls, frames=frames, page_bytes=page_bytes)
    with _progress(3 * runs) as step:
        result, ratios = measure_journal(options, progress=step)
    report.print_costs(report.make_console(), result, ratios, "journal")
    report.print_rolls(report.make_console(), result.results)
    _print_load(result)
    _write(result, json_path, out, "journal.json")


@bench.command(cls=rich_click.RichCommand)
@_runs_option(1)
@click.option(
    "--events", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="Depth events per run."
)
@_set_option
@_json_option
@_out_option
@runs_dir_option
def throughput(
    runs: int,
    events: int,
    overrides: tuple[str, ...],
    json_path: Path | None,
    out: Path | None,
    runs_dir: str | None,
) -> None:
    """As many depth events as go through, an order on each fifth; fails if one frame is lost.

    \b
    tapewire bench throughput --events 1000000
    """
    from ..bench import report
    from ..bench.throughput import ThroughputOptions, measure_throughput
    from ..runtime.rundir import runs_base

    _check_targets(json_path, out / "result" if out is not None else None)
    options = ThroughputOptions(events=events, runs=runs, overrides=overrides)
    with _progress(2 * runs + 1) as step:
        result, ratios = measure_throughput(options, out or runs_base(runs_dir), progress=step)
    console = report.make_console()
    report.print_costs(console, result, ratios, "throughput")
    for run in result.runs:
        backlog = ", ".join(
            f"{name} {frames:,}" for name, frames in run["max_backlog_frames"].items() if frames
        )
        console.print(
            f"{run['depths']:,} depths, {run['orders']:,} orders, {run['reports']:,} reports, nothing lost; "
            f"largest backlog in frames: {backlog or 'not counted'}; run: {run['run_dir']}",
            highlight=False,
        )
    _print_load(result)
    _write(result, json_path, out, "throughput.json")


@bench.command(cls=rich_click.RichCommand)
@_runs_option(5)
@_set_option
@_json_option
@_out_option
@runs_dir_option
def startup(
    runs: int, overrides: tuple[str, ...], json_path: Path | None, out: Path | None, runs_dir: str | None
) -> None:
    """From launch to the first Depth, and the private memory of each process.

    \b
    tapewire bench startup
    """
    from ..bench import report
    from ..bench.startup import StartupOptions, measure_startup
    from ..runtime.rundir import runs_base

    _check_targets(json_path, out / "result" if out is not None else None)
    options = StartupOptions(runs=runs, overrides=overrides)
    with _progress(2 * runs + 1) as step:
        result, ratios = measure_startup(options, out or runs_base(runs_dir), progress=step)
    console = report.make_console()
    report.print_costs(console, result, ratios, "start of the topology")
    memory: Mapping[str, float] = result.results["rss_anon_mb_by_process"]
    shown = ", ".join(f"{name} {megabytes:.1f}" for name, megabytes in memory.items())
    console.print(f"private memory (RssAnon, largest of {runs} runs), MB: {shown}", highlight=False)
    _print_load(result)
    _write(result, json_path, out, "startup.json")


@contextmanager
def _progress(steps: int) -> Iterator[Callable[[str], None]]:
    """A bar that is drawn between measurements only: a thread that refreshes it would be part of them."""
    from rich.console import Console
    from rich.progress import Progress

    progress = Progress(console=Console(stderr=True), transient=True, auto_refresh=False)
    task = progress.add_task("", total=steps)

    def step(what: str) -> None:
        progress.update(task, description=what, advance=1 if progress.live.is_started else 0)
        progress.start()
        progress.refresh()

    try:
        yield step
    finally:
        if progress.live.is_started:
            progress.stop()


def _check_targets(*paths: Path | None) -> None:
    """Refuse a result file that cannot be written before minutes are spent on the result."""
    for path in paths:
        if path is None:
            continue
        there = path.exists()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("ab").close()
        except OSError as error:
            raise ConfigError(f"cannot write {path}: {error.strerror}", where="--json") from error
        if not there:
            path.unlink()


def _print_load(result: BenchResult) -> None:
    from ..bench.report import make_console

    environment = result.environment
    make_console().print(
        f"{environment['cpu_model']}, CPUs {environment['cpus_usable']}, load average "
        f"{environment['load_average_before']} before, {environment['load_average_after']} after",
        highlight=False,
    )


def _write(result: BenchResult, json_path: Path | None, out: Path | None, name: str) -> None:
    from ..bench.report import make_console, write_json

    for path in (json_path, out / name if out is not None else None):
        if path is not None:
            write_json(result, path)
            make_console().print(f"result: {path}", highlight=False)
