"""`tapewire runs`: the runs there are, and removing what dead ones left."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click
import rich_click

from ..runtime.manifest import Manifest
from ..runtime.rundir import RunInfo, list_runs, runs_base
from .common import bytes_text, json_option, print_json, print_table, runs_dir_option


@click.group(cls=rich_click.RichGroup, invoke_without_command=True)
@runs_dir_option
@json_option
@click.pass_context
def runs(context: click.Context, runs_dir: str | None, as_json: bool) -> None:
    """List runs, oldest first.

    A run is "crashed" when nobody is left to end it, "masterless" when its processes go on without
    their master.

    \b
    tapewire runs
    tapewire runs --json
    tapewire runs prune --keep 20
    """
    context.obj = runs_dir
    if context.invoked_subcommand is not None:
        return
    base = runs_base(runs_dir)
    infos = list_runs(base)
    if as_json:
        print_json([_as_dict(info) for info in infos])
    elif not infos:
        click.echo(f"no run in {base} yet — start one with: tapewire run demo")
    else:
        print_table(
            ("run", "status", "topology", "started", "took", "processes"),
            [_row(info) for info in infos],
            right=("took",),
        )


@runs.command(cls=rich_click.RichCommand)
@runs_dir_option
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    default=None,
    metavar="N",
    help="Also remove the directories of ended runs, all but the newest N.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@json_option
@click.pass_context
def prune(
    context: click.Context, runs_dir: str | None, keep: int | None, dry_run: bool, as_json: bool
) -> None:
    """Remove what dead runs left in shared memory; with --keep also old run directories.

    What only shared memory still holds of a crashed run is recorded in its run directory first.
    Nothing of a run that is alive is touched.

    \b
    tapewire runs prune
    tapewire runs prune --keep 20 --dry-run
    """
    from ..runtime.prune import live_bases, prune_live, prune_runs
    from ..runtime.stop import recover

    base = runs_base(runs_dir or context.obj)
    pruned = prune_live(live_bases(base), recover=recover, dry_run=dry_run)
    if keep is not None:
        pruned += prune_runs(base, keep, dry_run=dry_run)
    problems = [item for item in pruned if item.problem]
    if as_json:
        print_json(
            [
                {
                    "path": str(item.path),
                    "reason": item.reason,
                    "size_bytes": item.size_bytes,
                    "removed": not (dry_run or item.problem),
                    "problem": item.problem,
                }
                for item in pruned
            ]
        )
    else:
        for item in pruned:
            verb = "would remove" if dry_run else ("kept" if item.problem else "removed")
            reason = item.problem or item.reason
            click.echo(f"{verb} {item.path} ({bytes_text(item.size_bytes)}): {reason}")
        if not pruned:
            click.echo("nothing to remove")
    if problems:
        context.exit(1)


def _row(info: RunInfo) -> tuple[str, ...]:
    manifest = info.manifest
    if manifest is None:
        return (info.run.name, info.status, "", "", "", info.problem)
    alive = manifest.alive_processes()
    processes = (
        f"{len(alive)} of {len(manifest.processes) + 1} alive" if alive else str(len(manifest.processes))
    )
    started = manifest.started_at[:19].replace("T", " ")
    return (info.run.name, info.status, manifest.topology, started, _duration(manifest), processes)


def _duration(manifest: Manifest) -> str:
    try:
        started = datetime.fromisoformat(manifest.started_at)
        ended = datetime.fromisoformat(manifest.finished_at)
    except ValueError:
        return ""
    return f"{(ended - started).total_seconds():.1f} s"


def _as_dict(info: RunInfo) -> dict[str, Any]:
    manifest = info.manifest
    row: dict[str, Any] = {"name": info.run.name, "path": str(info.run.path), "status": info.status}
    if manifest is None:
        return {**row, "problem": info.problem}
    return {
        **row,
        "topology": manifest.topology,
        "run_id": manifest.run_id,
        "started_at": manifest.started_at,
        "finished_at": manifest.finished_at,
        "alive": manifest.alive_processes(),
        "live_dir": manifest.live_dir,
    }
