"""`tapewire bench startup`: from launch to the first Depth, and private memory per process while it runs.

The floor is as many bare Python interpreters started at once.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..journal import Journal
from ..journal.analysis import tapewire_version
from ..journal.errors import TapewireError
from ..journal.format import FrameType
from ..runtime.config import Topology
from ..runtime.environment import capture, load_average
from ..runtime.launch import launch
from ..runtime.rundir import create_run
from ..runtime.topology import load_topology
from .report import BenchResult
from .stats import PairedRatio, paired_ratio, ratio_json

__all__ = ["StartupOptions", "measure_startup", "private_mb"]

# Long enough to read every process's memory after its first events.
_EVENTS = 10_000
_SETTLE_S = 1.0


@dataclass(frozen=True)
class StartupOptions:
    """How often to start the topology."""

    runs: int = 5
    topology_name: str = "latency"
    overrides: tuple[str, ...] = ()

    def topology(self) -> Topology:
        """The topology, with enough events to be looked at while it runs."""
        feed = load_topology(self.topology_name, check=False).feed.name
        return load_topology(self.topology_name, [f"processes.{feed}.events={_EVENTS}", *self.overrides])


def measure_startup(
    options: StartupOptions, base: Path, *, progress: Callable[[str], None] = lambda _what: None
) -> tuple[BenchResult, dict[str, PairedRatio]]:
    """Start it `options.runs` times, each after the floor, and one more floor.

    `start_s` is seconds from the launch to the first Depth's gen_time (both CLOCK_MONOTONIC);
    `rss_anon_mb` is the largest private memory of any process (RssAnon of /proc/PID/status, 10^6 bytes).
    """
    topology = options.topology()
    before = load_average()
    count = len(topology.processes) + 1
    floors: list[dict[str, float]] = []
    runs: list[dict[str, Any]] = []
    for number in range(1, options.runs + 2):
        progress(f"floor {number} of {options.runs + 1}")
        floors.append(_bare_interpreters(count))
        if number <= options.runs:
            progress(f"start {number} of {options.runs}")
            runs.append(_start(topology, base))
    keys = ("start_s", "rss_anon_mb")
    ratios = {
        key: ratio
        for key in keys
        if (ratio := paired_ratio([run[key] for run in runs], [floor[key] for floor in floors])) is not None
    }
    names = runs[0]["rss_anon_mb_by_process"]
    result = BenchResult(
        bench="startup",
        version=tapewire_version(),
        environment={**capture(), "load_average_before": before, "load_average_after": load_average()},
        config={**msgspec.to_builtins(options), "topology": topology.to_dict(), "processes": count},
        runs=runs,
        results={
            **{key: round(float(np.median([run[key] for run in runs])), 3) for key in keys},
            "start_max_s": max(run["start_s"] for run in runs),
            "rss_anon_mb_by_process": {
                name: max(run["rss_anon_mb_by_process"][name] for run in runs) for name in names
            },
            "input": len(runs),
            "kept": len(runs),
        },
        floor={key: round(float(np.median([floor[key] for floor in floors])), 3) for key in keys},
        ratio=ratio_json(ratios),
        rejected={},
    )
    return result, ratios


def private_mb(pid: int) -> float:
    """RssAnon of a process in MB (10^6 bytes); raises TapewireError when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError as error:
        raise TapewireError(f"process {pid} ended while its memory was read") from error
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return round(int(line.split()[1]) * 1024 / 1e6, 2)
    raise TapewireError(f"process {pid} ended while its memory was read")


def _start(topology: Topology, base: Path) -> dict[str, Any]:
    run = create_run(base, None, topology)
    begun_ns = time.monotonic_ns()
    with launch(topology, run) as running:
        time.sleep(_SETTLE_S)
        manifest = run.manifest()
        pids: Mapping[str, int] = {
            "master": manifest.master.pid,
            **{name: process.pid for name, process in manifest.processes.items()},
        }
        memory = {name: private_mb(pid) for name, pid in pids.items()}
        ended = running.wait()
    if ended is None or ended.state != "finished":
        raise TapewireError(f"run {run.name}: it did not finish — see {run.logs_dir}")
    with Journal.open(run.path) as journal:
        headers = journal.headers(streams=[topology.feed.name])
    first_ns = int(headers["gen_time"][headers["type"] == FrameType.DEPTH].min())
    return {
        "run": run.name,
        "start_s": round((first_ns - begun_ns) * 1e-9, 4),
        "rss_anon_mb": max(memory.values()),
        "rss_anon_mb_by_process": memory,
    }


def _bare_interpreters(count: int) -> dict[str, float]:
    """Start `count` interpreters at once; time until the last one answers, and the memory of the largest."""
    begun_ns = time.monotonic_ns()
    children = [
        subprocess.Popen(
            [sys.executable, "-c", "print(flush=True); input()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(count)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        start_s = (time.monotonic_ns() - begun_ns) * 1e-9
        return {"start_s": round(start_s, 4), "rss_anon_mb": max(private_mb(child.pid) for child in children)}
    finally:
        for child in children:
            child.kill()
            child.communicate()
