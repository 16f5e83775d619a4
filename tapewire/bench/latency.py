"""`tapewire bench latency`: depth -> order -> report, repeated, in alternation with the relay floor.

floor, ours, floor, ours, ..., floor: each of our runs is compared with the floor taken just before it, and
successive floors tell how far this machine drifts by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from ..journal.aggregate import aggregate
from ..journal.analysis import Analysis, RunAnalysis, analyze, measured_config, tapewire_version
from ..journal.cycles import OVERFLOW_NS, STAGES
from ..journal.distribution import Distribution, across_runs, distribution, medians
from ..journal.errors import TapewireError
from ..runtime.config import StrategyConfig, SyntheticFeedConfig, Topology
from ..runtime.effective import pinned_cpus
from ..runtime.environment import capture, load_average
from ..runtime.errors import ConfigError
from ..runtime.launch import launch
from ..runtime.rundir import RunDir, create_run
from ..runtime.topology import load_topology
from .floor import FloorPlan, FloorSample, run_floor
from .report import BenchResult
from .stats import PairedRatio, latency_ratios, ratio_json

__all__ = ["FloorRun", "LatencyMeasurement", "LatencyOptions", "measure_latency", "run_once"]

# By profile and strategy: the bundled topology, and what is set in it.
_TOPOLOGIES = {
    ("median", "native"): ("latency", ()),
    ("median", "python"): ("latency-python", ()),
    ("tail", "native"): ("latency-tail", ()),
    ("tail", "python"): (
        "latency-tail",
        ("processes.strategy.strategy=examples/alternating.py:Alternating",),
    ),
}
# The roles of the relay floor, by the role of the process whose CPU they take.
_FLOOR_ROLES = {"md": "market_data", "strategy": "strategy", "td": "trade_gateway"}


@dataclass(frozen=True)
class LatencyOptions:
    """What to measure. `profile` names the latency topology; `wait` replaces the wait policy of strategy and
    venue in it, None keeps what it says.

    `lingering_floor` adds a second floor whose publisher lingers as ours does: what our code adds to the
    same schedule.
    """

    runs: int = 5
    events: int = 5000
    interval_us: int = 300
    strategy: Literal["native", "python"] = "native"
    profile: Literal["median", "tail"] = "median"
    arrivals: Literal["constant", "poisson"] = "constant"
    warmup: int = 100
    wait: str | None = None
    lingering_floor: bool = False
    overrides: tuple[str, ...] = ()

    def topology(self) -> Topology:
        """The bundled topology with these options applied; raises ConfigError."""
        name, fixed = _TOPOLOGIES[self.profile, self.strategy]
        plain = load_topology(name, check=False)
        feed = plain.feed.name
        settings = [
            *fixed,
            f"processes.{feed}.events={self.events}",
            f"processes.{feed}.interval_us={self.interval_us}",
            f'processes.{feed}.arrivals="{self.arrivals}"',
        ]
        if self.wait is not None:
            waiting = (*plain.by_role("strategy"), *plain.by_role("trade_gateway"))
            settings += [f'processes.{process.name}.wait="{self.wait}"' for process in waiting]
        return load_topology(name, [*settings, *self.overrides])


class FloorRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the floor, summarised as ours are: the same warm-up, nothing else left out in silence."""

    orders: int
    kept: int
    warmup: int
    negative: int
    overflow: int
    stages: dict[str, Distribution | None]


@dataclass(frozen=True)
class LatencyMeasurement:
    """Everything `tapewire bench latency` shows; `result` is what --json writes."""

    result: BenchResult
    runs: list[RunAnalysis]
    floors: list[FloorRun]
    ratios: dict[str, PairedRatio]
    lingering_ratios: dict[str, PairedRatio]
    run_dirs: list[Path]


def measure_latency(
    options: LatencyOptions, base: Path, *, progress: Callable[[str], None] = lambda _what: None
) -> LatencyMeasurement:
    """Alternate floor and topology `options.runs` times; run directories are made below `base`.

    `progress` is called with what comes next, between measurements only. Raises ConfigError, or TapewireError
    when a run failed or lost something.
    """
    topology = options.topology()
    plan = floor_plan(topology)
    if plan.events // plan.every <= options.warmup:
        raise ConfigError(
            f"{plan.events} events give {plan.events // plan.every} orders, "
            f"all of them within the warm-up of {options.warmup}",
            where="bench latency",
            hint="raise --events or lower --warmup",
        )
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    before = load_average()
    floors: list[FloorRun] = []
    lingering: list[FloorRun] = []
    analyses: list[Analysis] = []
    run_dirs: list[Path] = []
    for number in range(1, options.runs + 1):
        progress(f"floor {number} of {options.runs + 1}")
        floors.append(summarise_floor(run_floor(plan), options.warmup))
        if options.lingering_floor:
            progress(f"lingering floor {number} of {options.runs}")
            lingering.append(summarise_floor(run_floor(lingering_plan(topology)), options.warmup))
        progress(f"run {number} of {options.runs}")
        run = create_run(base, f"{topology.name}-bench-{stamp}-{os.getpid()}-{number:02d}", topology)
        run_once(topology, run)
        run_dirs.append(run.path)
        analyses.append(analyze(run.path, warmup=options.warmup)[0])
    progress(f"floor {options.runs + 1} of {options.runs + 1}")
    floors.append(summarise_floor(run_floor(plan), options.warmup))
    progress("done")
    load = {"load_average_before": before, "load_average_after": load_average()}
    return _measurement(options, topology, analyses, floors, lingering, run_dirs, load)


def run_once(topology: Topology, run: RunDir) -> None:
    """Run a topology with an end of its own to that end; raises TapewireError unless it finished."""
    with launch(topology, run) as running:
        ended = running.wait()
    if ended is None or ended.state != "finished" or ended.exit_status != 0:
        state = "unknown" if ended is None else ended.state
        why = "; ".join(ended.problems) if ended is not None and ended.problems else f"it ended as {state}"
        raise TapewireError(f"run {run.name}: {why} — see {run.logs_dir}")


def floor_plan(topology: Topology) -> FloorPlan:
    """The floor of a latency topology: the same events, gaps, orders and pins."""
    feed = topology.feed
    if not isinstance(feed, SyntheticFeedConfig) or feed.events < 1:
        raise TapewireError("bench latency: the topology's feed must be synthetic and have an end")
    (strategy,) = topology.by_role("strategy")
    assert isinstance(strategy, StrategyConfig)
    every = int(strategy.params.get("every", 5))
    cpus = {}
    for name, role in _FLOOR_ROLES.items():
        (process,) = topology.by_role(role)
        cpus[name] = pinned_cpus(process)
    return FloorPlan(
        events=feed.events,
        every=every,
        interval_ns=feed.interval_us * 1000,
        poisson=feed.arrivals == "poisson",
        seed=feed.seed,
        cpus=cpus,
    )


def lingering_plan(topology: Topology) -> FloorPlan:
    """The floor with our feed's lingering."""
    return msgspec.structs.replace(floor_plan(topology), linger_ns=topology.feed.linger_us * 1000)


def summarise_floor(sample: FloorSample, warmup: int) -> FloorRun:
    """The floor's latencies, classified by the rules of `journal.cycles`."""
    stages: dict[str, npt.NDArray[np.int64]] = {stage: getattr(sample, f"{stage}_ns") for stage in STAGES}
    latencies = np.stack(list(stages.values()))
    negative = (latencies < 0).any(axis=0)
    overflow = ~negative & (latencies > OVERFLOW_NS).any(axis=0)
    valid = np.flatnonzero(~negative & ~overflow)
    kept = valid[warmup:]
    return FloorRun(
        orders=latencies.shape[1],
        kept=len(kept),
        warmup=len(valid) - len(kept),
        negative=int(negative.sum()),
        overflow=int(overflow.sum()),
        stages={stage: distribution(latency[kept]) for stage, latency in stages.items()},
    )


def _measurement(
    options: LatencyOptions,
    topology: Topology,
    analyses: Sequence[Analysis],
    floors: list[FloorRun],
    lingering: list[FloorRun],
    run_dirs: list[Path],
    load: dict[str, Any],
) -> LatencyMeasurement:
    whole = aggregate(analyses)
    ours = [run.stages["depth_to_report"] for run in whole.runs]
    ratios = latency_ratios(_present(ours), _present(_whole(floors)))
    lingering_ratios = latency_ratios(_present(ours), _present(_whole(lingering))) if lingering else {}
    first = whole.runs[0]
    result = BenchResult(
        bench="latency",
        version=tapewire_version(),
        environment={**capture(), **load, "wait_policy": first.wait, "cpus": first.cpu},
        config={
            **measured_config(options.warmup),
            **msgspec.to_builtins(options),
            "topology": topology.to_dict(),
            "floor": {**msgspec.to_builtins(floor_plan(topology)), "wait": "yield"},
        },
        runs=[
            {
                "run": analysis.run,
                "run_dir": str(run_dir),
                "input": analysis.input_orders,
                "kept": analysis.kept,
                "rejected": analysis.accounts.rejected(),
                "accounts": msgspec.to_builtins(analysis.accounts),
                "stages": msgspec.to_builtins(analysis.stages),
            }
            for analysis, run_dir in zip(whole.runs, run_dirs, strict=True)
        ],
        results={
            **whole.results,
            "across_runs": msgspec.to_builtins(whole.across_runs),
            "pooled": msgspec.to_builtins(whole.pooled),
        },
        floor={
            **_floor_json(floors),
            **({"lingering": _floor_json(lingering)} if lingering else {}),
        },
        ratio={
            **ratio_json(ratios),
            **({"to_lingering_floor": ratio_json(lingering_ratios)} if lingering else {}),
        },
        rejected=whole.rejected,
    )
    return LatencyMeasurement(result, whole.runs, floors, ratios, lingering_ratios, run_dirs)


def _whole(floors: Sequence[FloorRun]) -> list[Distribution | None]:
    return [floor.stages["depth_to_report"] for floor in floors]


def _present(runs: Sequence[Distribution | None]) -> list[Distribution]:
    """All of them; raises TapewireError when one kept no cycle, since runs are compared in pairs."""
    present = [run for run in runs if run is not None]
    if len(present) < len(runs):
        raise TapewireError("bench latency: a run kept no cycle; `tapewire analyze` tells where they went")
    return present


def _floor_json(floors: Sequence[FloorRun]) -> dict[str, Any]:
    rejected = ("warmup", "negative", "overflow")
    return {
        "input": sum(floor.orders for floor in floors),
        "kept": sum(floor.kept for floor in floors),
        **medians(_whole(floors)),
        "across_runs": msgspec.to_builtins(across_runs(_whole(floors))),
        "stages": {stage: medians([floor.stages[stage] for floor in floors]) for stage in STAGES},
        "rejected": {key: sum(int(getattr(floor, key)) for floor in floors) for key in rejected},
        "runs": msgspec.to_builtins(list(floors)),
    }
