"""`tapewire stop`: end a run in order, with or without its master."""

from __future__ import annotations

import click
import rich_click

from .common import json_option, print_json, run_argument, runs_dir_option

__all__ = ["stop"]


@click.command(cls=rich_click.RichCommand)
@run_argument
@runs_dir_option
@json_option
def stop(run: str, runs_dir: str | None, as_json: bool) -> int:
    """Stop RUN (a name, a directory or "last") in order: market data, strategies, venues, ledger.

    Each finishes what it has received; who does not stop is ended, and that is said. Works from the
    manifest when master is dead. Returns when the run is over and recorded.

    \b
    tapewire stop last
    """
    from ..runtime.rundir import find_run, runs_base
    from ..runtime.stop import stop_run

    found = find_run(run, runs_base(runs_dir))
    result = stop_run(found, lambda line: click.echo(line, err=True))
    if as_json:
        print_json(
            {
                "run": found.name,
                "state": result.state,
                "stopped": result.stopped,
                "problems": result.problems,
                "already_over": result.already_over,
            }
        )
    elif result.already_over:
        click.echo(f"run {found.name} is over already ({result.state})")
    else:
        click.echo(f"run {found.name}: {result.state}")
    for problem in result.problems:
        click.echo(f"error: {problem}", err=True)
    return 1 if result.problems else 0
