"""`tapewire bench throughput`: as many events as go through, and proof that none was lost.

The feed publishes without pacing and waits for nobody; the native strategy orders on each N-th depth. The
floor is the relay floor, unpaced too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..journal import Journal
from ..journal.analysis import join_journal, tapewire_version
from ..journal.errors import TapewireError
from ..journal.format import FrameType
from ..runtime.config import StrategyConfig, SyntheticFeedConfig, Topology
from ..runtime.environment import capture, load_average
from ..runtime.finish import RunSummary
from ..runtime.rundir import RunDir, create_run
from ..runtime.topology import load_topology
from .floor import run_floor
from .latency import floor_plan, run_once
from .report import BenchResult
from .stats import PairedRatio, paired_ratio, ratio_json

__all__ = ["ThroughputOptions", "measure_throughput"]


@dataclass(frozen=True)
class ThroughputOptions:
    """How many depth events, how often; an order on each `every`-th of them."""

    events: int = 1_000_000
    every: int = 5
    runs: int = 1
    overrides: tuple[str, ...] = ()

    def topology(self) -> Topology:
        """The latency topology without pacing, and without the limits that would refuse such a flood."""
        plain = load_topology("latency", check=False)
        feed = plain.feed.name
        (strategy,), (venue,) = plain.by_role("strategy"), plain.by_role("trade_gateway")
        settings = [
            f"processes.{feed}.events={self.events}",
            f'processes.{feed}.speed="max"',
            f'processes.{feed}.pace="free"',
            f"processes.{feed}.linger_us=0",
            f"processes.{strategy.name}.throttle_per_s=0",
            f'processes.{strategy.name}.max_position="1000000"',
            f"processes.{strategy.name}.params.every={self.every}",
            f"processes.{venue.name}.max_open_orders={min(max(self.events, 1), 10_000_000)}",
        ]
        return load_topology("latency", [*settings, *self.overrides])


def measure_throughput(
    options: ThroughputOptions, base: Path, *, progress: Callable[[str], None] = lambda _what: None
) -> tuple[BenchResult, dict[str, PairedRatio]]:
    """Run it `options.runs` times, each after a run of the floor, and one more floor.

    Raises TapewireError when a depth, an order or a report is missing, naming what.
    """
    topology = options.topology()
    plan = msgspec.structs.replace(floor_plan(topology), interval_ns=0)
    before = load_average()
    floors: list[dict[str, float]] = []
    runs: list[dict[str, Any]] = []
    for number in range(1, options.runs + 2):
        progress(f"floor {number} of {options.runs + 1}")
        floor = run_floor(plan)
        floors.append(_rates(plan.events, floor.publish_ns, floor.pipeline_ns))
        if number > options.runs:
            break
        progress(f"run {number} of {options.runs}")
        run = create_run(base, None, topology)
        run_once(topology, run)
        runs.append(_account(topology, run))
    keys = list(floors[0])
    ratios = {
        key: ratio
        for key in keys
        if (ratio := paired_ratio([run[key] for run in runs], [floor[key] for floor in floors])) is not None
    }
    result = BenchResult(
        bench="throughput",
        version=tapewire_version(),
        environment={**capture(), "load_average_before": before, "load_average_after": load_average()},
        config={
            **msgspec.to_builtins(options),
            "topology": topology.to_dict(),
            "floor": msgspec.to_builtins(plan),
        },
        runs=runs,
        results={
            **{key: float(np.median([run[key] for run in runs])) for key in keys},
            "input": sum(run["depths"] for run in runs),
            "kept": sum(run["depths"] for run in runs),
            "max_backlog_frames": {
                name: max(run["max_backlog_frames"][name] for run in runs)
                for name in runs[0]["max_backlog_frames"]
            },
        },
        floor={key: float(np.median([floor[key] for floor in floors])) for key in keys},
        ratio=ratio_json(ratios),
        rejected={"lost": 0},
    )
    return result, ratios


def _rates(events: int, publish_ns: int, pipeline_ns: int) -> dict[str, float]:
    return {
        "published_events_per_s": round(events / max(publish_ns, 1) * 1e9, 1),
        "pipeline_events_per_s": round(events / max(pipeline_ns, 1) * 1e9, 1),
    }


def _account(topology: Topology, run: RunDir) -> dict[str, Any]:
    """Count every frame of the run against what must be there."""
    feed = topology.feed
    (strategy,) = topology.by_role("strategy")
    assert isinstance(feed, SyntheticFeedConfig)
    assert isinstance(strategy, StrategyConfig)
    with Journal.open(run.path) as journal:
        headers = journal.headers()
        accounts = join_journal(journal, warmup=0).accounts
    every = int(strategy.params.get("every", 5))
    expected = {
        "depths": (accounts.depths, feed.events),
        "orders": (accounts.orders, feed.events // every),
        "orders with a report": (accounts.cycles, feed.events // every),
    }
    lost = [
        f"{found:,} of {wanted:,} {what}" for what, (found, wanted) in expected.items() if found != wanted
    ]
    if lost:
        raise TapewireError(f"run {run.name}: {'; '.join(lost)} — see {run.path}")
    kind, times = headers["type"], headers["gen_time"]
    depths = times[kind == FrameType.DEPTH]
    last = times[(kind == FrameType.ORDER_REPORT) | (kind == FrameType.FILL)].max(initial=depths.max())
    summary = msgspec.json.decode(run.summary_path.read_bytes(), type=RunSummary)
    return {
        "run": run.name,
        "run_dir": str(run.path),
        "depths": accounts.depths,
        "orders": accounts.orders,
        "reports": accounts.reports,
        **_rates(accounts.depths, int(depths.max() - depths.min()), int(last - depths.min())),
        "max_backlog_frames": {
            name: int(counters.get("max_backlog", 0)) for name, counters in summary.processes.items()
        },
    }
