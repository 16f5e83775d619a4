"""`tapewire run`: start a topology, watch it, stop it, say how it went."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import rich_click

from .common import json_option, print_json, runs_dir_option
from .stop import stop

if TYPE_CHECKING:
    from ..runtime.launch import RunningRun, RunResult

__all__ = ["run", "stop"]

STATUS_INTERVAL_S = 0.25
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def _seconds(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
    """The seconds of a duration such as 30s."""
    if value is None:
        return None
    match = _DURATION.fullmatch(value.strip())
    if match is None or float(match[1]) == 0:
        raise click.BadParameter(f"not a duration: {value!r} — a number with ms, s, m or h, such as 30s")
    return float(match[1]) * _SECONDS[match[2]]


@click.command(cls=rich_click.RichCommand)
@click.argument("topology")
@click.option("--for", "for_s", callback=_seconds, metavar="TIME", help="Stop after that time, such as 30s.")
@click.option("--input", "input_path", metavar="FILE", help="The recording that market data is read from.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key of the topology."
)
@click.option("--name", metavar="NAME", help="Name of the run; else the topology's with the time of day.")
@click.option("--quiet", is_flag=True, help="No live status: nothing else runs beside a measurement.")
@runs_dir_option
@json_option
def run(
    topology: str,
    for_s: float | None,
    input_path: str | None,
    overrides: tuple[str, ...],
    name: str | None,
    quiet: bool,
    runs_dir: str | None,
    as_json: bool,
) -> int:
    """Start TOPOLOGY (a TOML file, or the name of a bundled one) and watch it until it ends.

    Ctrl-C or SIGTERM stops the run in order; a second one does not wait. When this command itself is
    killed the run goes on, and `tapewire stop` ends it.

    \b
    tapewire run demo --for 10s
    tapewire run latency --quiet
    tapewire run binance --input day.gz --set processes.md.speed=max
    """
    from ..runtime.cpu import allowed_cpus
    from ..runtime.effective import resolve, warnings
    from ..runtime.launch import RunFailedToStart, launch
    from ..runtime.preflight import check_inputs
    from ..runtime.rundir import create_run, runs_base
    from ..runtime.topology import load_topology

    loaded = load_topology(topology, overrides, input_path=input_path)
    for line in warnings(loaded, resolve(loaded, allowed_cpus())):
        click.echo(f"warning: {line}", err=True)
    check_inputs(loaded, lambda line: click.echo(line, err=True), overrides=overrides)
    with _stop_requests() as requests:
        directory = create_run(runs_base(runs_dir), name, loaded)
        try:
            running = launch(loaded, directory, for_s=for_s, argv=sys.argv)
        except RunFailedToStart as error:
            if error.tail and error.exit_status != 2:
                click.echo(error.tail, err=True)
            raise
        requests.deferred = True
        for line in running.warnings:
            click.echo(f"warning: {line}", err=True)
        result = _watch(running, requests, live=not (quiet or as_json))
    return _report(running, result, as_json=as_json)


class _Requests:
    """Ctrl-C and SIGTERM: an exception while the run starts, counted afterwards."""

    def __init__(self) -> None:
        self.deferred = False
        self.count = 0

    def __call__(self, _number: int, _frame: object) -> None:
        if not self.deferred:
            raise KeyboardInterrupt
        self.count += 1


@contextmanager
def _stop_requests() -> Iterator[_Requests]:
    requests = _Requests()
    before = {number: signal.signal(number, requests) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(running: RunningRun, requests: _Requests, *, live: bool) -> RunResult:
    """Until the run has ended; passes stop requests on."""
    from rich.console import Console
    from rich.live import Live

    from .live_view import live_table

    console = Console(stderr=True)
    passed_on = 0
    result = running.wait(0)
    if not live or not console.is_terminal:
        if live:
            click.echo(f"run {running.name} is up ({running.start_s:.2f} s); Ctrl-C stops it", err=True)
        while result is None:
            passed_on = _pass_on(running, requests, passed_on)
            result = running.wait(STATUS_INTERVAL_S)
        return result
    streams = running.run.manifest().streams
    title = f"{running.name}, up in {running.start_s:.2f} s"

    def table() -> Any:
        now = f"{title}{', stopping' if requests.count else ''}"
        return live_table(now, running.counters, streams, width=console.width)

    with Live(table(), console=console, auto_refresh=False, transient=True) as view:
        while result is None:
            passed_on = _pass_on(running, requests, passed_on)
            view.update(table(), refresh=True)
            result = running.wait(STATUS_INTERVAL_S)
    return result


def _pass_on(running: RunningRun, requests: _Requests, passed_on: int) -> int:
    while passed_on < requests.count:
        running.stop()
        passed_on += 1
    return passed_on


def _report(running: RunningRun, result: RunResult, *, as_json: bool) -> int:
    from .run_report import as_dict, print_report

    if as_json:
        print_json(as_dict(running, result))
    else:
        print_report(running, result)
    for problem in result.problems:
        click.echo(f"error: {problem}", err=True)
    return result.exit_status
