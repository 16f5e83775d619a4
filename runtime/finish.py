"""The end of a run: the rest recorded, the final counters kept, the manifest closed, live files removed.

Master does it at an orderly end, and `tapewire stop` where there is no master any more.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Any

import msgspec

from ..journal.recorder import Recorder
from .live import CountersView
from .manifest import Manifest, RunState, utc_now, write_atomically
from .rundir import RunDir

__all__ = ["RunSummary", "close_run", "open_recorder", "release_reserve", "reserve_space"]

# Enough for the manifest and the summary: a run that filled its disk must still be able to say so.
RESERVE_BYTES = 256 * 1024
RESERVE_NAME = ".reserve"


class RunSummary(msgspec.Struct, kw_only=True):
    """`summary.json`: how the run ended, and the final counters of each process."""

    state: str
    exit_status: int = 0
    problems: list[str] = []
    failed: list[str] = []
    processes: dict[str, dict[str, Any]] = {}


def open_recorder(run: RunDir, manifest: Manifest) -> Recorder:
    """The recorder of the run, from where it left off."""
    durability = manifest.config.get("run", {}).get("durability", "interval")
    return Recorder(
        str(run.path),
        manifest.live_dir,
        [stream.name for stream in manifest.streams],
        fsync=durability != "none",
    )


def reserve_space(run: RunDir) -> None:
    """Set aside what the end of the run needs on disk; raises OSError where not even that fits."""
    fd = os.open(run.path / RESERVE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, RESERVE_BYTES)
    finally:
        os.close(fd)


def release_reserve(run: RunDir) -> None:
    """Give back what `reserve_space` took."""
    with contextlib.suppress(OSError):
        (run.path / RESERVE_NAME).unlink(missing_ok=True)


def close_run(
    run: RunDir,
    manifest: Manifest,
    counters: CountersView | None,
    state: RunState,
    *,
    exit_status: int = 0,
    problems: list[str] | None = None,
    failed: list[str] | None = None,
) -> None:
    """Write the summary, then the manifest with its final state, then remove the live directory.

    In this order, so that a run whose manifest says it is over is complete.
    """
    release_reserve(run)
    summary = RunSummary(
        state=state,
        exit_status=exit_status,
        problems=problems or [],
        failed=failed or [],
        processes={} if counters is None else _final_counters(counters),
    )
    write_atomically(run.summary_path, msgspec.json.format(msgspec.json.encode(summary), indent=2))
    manifest.state = state
    manifest.finished_at = utc_now()
    manifest.save(run.path)
    shutil.rmtree(manifest.live_dir, ignore_errors=True)


def _final_counters(counters: CountersView) -> dict[str, dict[str, Any]]:
    return {name: dict(counters.block(slot).snapshot()) for slot, name in enumerate(counters.names)}
