"""Latency over several runs: the spread of each percentile from run to run, and pooled histograms apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from .analysis import (
    DEFAULT_WARMUP,
    Analysis,
    RunAnalysis,
    load_or_analyze,
    measured_config,
    tapewire_version,
)
from .cycles import STAGES
from .distribution import Distribution, Spread, across_runs, medians, pool, pooled_distribution

__all__ = ["Aggregate", "aggregate", "aggregate_runs"]


class Aggregate(msgspec.Struct, frozen=True, kw_only=True):
    """Several analysed runs under the keys every benchmark of tapewire publishes.

    `across_runs` maps each stage to the spread (minimum, median, mean, maximum over runs, with an interval
    from 10 runs on) of each percentile. `pooled` summarises the histograms of all cycles of all runs thrown
    together: it answers another question and is never mixed into the former.
    """

    bench: str
    version: str
    environment: dict[str, Any]
    config: dict[str, Any]
    runs: list[RunAnalysis]
    results: dict[str, Any]
    floor: dict[str, Any]
    ratio: dict[str, Any]
    rejected: dict[str, int]
    across_runs: dict[str, dict[str, Spread]]
    pooled: dict[str, Distribution | None]


def aggregate(analyses: Sequence[Analysis]) -> Aggregate:
    """Combine analyses of at least one run. Runs without a kept cycle count in `rejected` only."""
    runs = [run for analysis in analyses for run in analysis.runs]
    by_stage = {stage: [run.stages.get(stage) for run in runs] for stage in STAGES}
    pooled: dict[str, Distribution | None] = {}
    for stage in STAGES:
        parts = [part for analysis in analyses if (part := analysis.histograms.get(stage)) is not None]
        whole = pool(parts)
        pooled[stage] = pooled_distribution(whole) if whole is not None else None
    rejected: dict[str, int] = {}
    for analysis in analyses:
        for reason, count in analysis.rejected.items():
            rejected[reason] = rejected.get(reason, 0) + count
    return Aggregate(
        bench="aggregate",
        version=tapewire_version(),
        environment=_common_environment(analyses),
        config={**measured_config(runs[0].warmup_cycles), "runs": len(runs)},
        runs=runs,
        results={
            "input": sum(run.input_orders for run in runs),
            "kept": sum(run.kept for run in runs),
            **medians(by_stage["depth_to_report"]),
            "stages": {stage: medians(summaries) for stage, summaries in by_stage.items()},
        },
        floor={},
        ratio={},
        rejected=rejected,
        across_runs={stage: across_runs(summaries) for stage, summaries in by_stage.items()},
        pooled=pooled,
    )


def aggregate_runs(
    runs: Sequence[str | Path], *, warmup: int = DEFAULT_WARMUP, progress: Callable[[], None] | None = None
) -> Aggregate:
    """Aggregate runs (names or directories); a saved analysis is used where it still matches its journal.

    `progress` is called once per run. Raises what `analyze` raises.
    """
    analyses = []
    for run in runs:
        analyses.append(load_or_analyze(run, warmup=warmup))
        if progress is not None:
            progress()
    return aggregate(analyses)


def _common_environment(analyses: Sequence[Analysis]) -> dict[str, Any]:
    """What all runs share; a fact that differs between them is "mixed"."""
    merged = dict(analyses[0].environment)
    for analysis in analyses[1:]:
        for key in merged.keys() | analysis.environment.keys():
            if merged.get(key) != analysis.environment.get(key):
                merged[key] = "mixed"
    return merged
