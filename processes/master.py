"""The master process: a run directory in, an event loop, an exit status out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import uvloop

from ..runtime.logs import configure_logging
from ..runtime.master import Master
from ..runtime.master_report import ReportWriter
from ..runtime.rundir import RunDir

__all__ = ["run_master"]


def run_master(run_dir: Path, report_fd: int, for_s: float | None) -> int:
    """Run the run in `run_dir` to its end; `report_fd` is the pipe of whoever launched it, or -1."""
    logs = configure_logging("master")
    report = ReportWriter(report_fd)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(Master(RunDir(run_dir), report, for_s=for_s).run())
    finally:
        report.close()
        logs.flush()
