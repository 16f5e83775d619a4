"""Percentiles, histograms and intervals of latencies, on integer nanoseconds.

The quantile rule everywhere is nearest-rank: of n sorted values the q-quantile is the ceil(q * n)-th,
so each published percentile is a latency that occurred. Ranks are computed in integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

__all__ = [
    "PERCENTILES",
    "SUMMARY_KEYS",
    "Distribution",
    "Histogram",
    "Spread",
    "across_runs",
    "bootstrap_interval",
    "distribution",
    "histogram",
    "medians",
    "pool",
    "pooled_distribution",
    "quantile_rank",
    "spread",
]

Nanoseconds: TypeAlias = npt.NDArray[np.int64]

# Key in JSON -> the quantile as a fraction.
PERCENTILES: Mapping[str, tuple[int, int]] = {
    "p50_us": (50, 100),
    "p90_us": (90, 100),
    "p99_us": (99, 100),
    "p999_us": (999, 1000),
}
SUMMARY_KEYS = (*PERCENTILES, "max_us")

_BOOTSTRAP_SEED = 20240601
_BOOTSTRAP_RUNS = 10
_SUB_BITS = 7  # 128 buckets per power of two: a bucket is at most 1/128 of its lower bound wide


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """One latency distribution in microseconds, `n` values. Exact: nearest-rank on nanoseconds."""

    n: int
    min_us: float
    p50_us: float
    p90_us: float
    p99_us: float
    p999_us: float
    max_us: float
    mean_us: float


class Histogram(msgspec.Struct, frozen=True, kw_only=True):
    """Counts per log-linear bucket: below 256 ns exact, above at most 1/128 wide. The extremes are exact."""

    lower_ns: list[int]
    count: list[int]
    min_ns: int
    max_ns: int


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """One figure over runs; `interval` is the bootstrap 95 % interval of the median, from 10 runs on."""

    min: float
    median: float
    mean: float
    max: float
    interval: tuple[float, float] | None = None


def quantile_rank(n: int, numerator: int, denominator: int) -> int:
    """Index (from 0) of the nearest-rank quantile numerator/denominator among n >= 1 sorted values."""
    return max(-(-n * numerator // denominator), 1) - 1


def distribution(latency_ns: Nanoseconds) -> Distribution | None:
    """Summarise latencies in nanoseconds; None when there are none."""
    n = len(latency_ns)
    if n == 0:
        return None
    ordered = np.sort(latency_ns)
    # Sums of up to 2^23 latencies of 2^40 ns fit; the mean of more is still right to double precision.
    total = int(ordered.sum()) if n < 1 << 23 else float(ordered.sum(dtype=np.float64))
    at = {key: int(ordered[quantile_rank(n, *fraction)]) / 1000 for key, fraction in PERCENTILES.items()}
    return Distribution(
        n=n,
        min_us=int(ordered[0]) / 1000,
        max_us=int(ordered[-1]) / 1000,
        mean_us=round(total / n / 1000, 3),
        **at,
    )


def histogram(latency_ns: Nanoseconds) -> Histogram | None:
    """Count latencies (nanoseconds, 0 <= x < 2^53) per bucket; None when there are none."""
    if len(latency_ns) == 0:
        return None
    _, bits = np.frexp(latency_ns.astype(np.float64))
    shift = np.maximum(bits.astype(np.int64) - (_SUB_BITS + 1), 0)
    lower, count = np.unique((latency_ns >> shift) << shift, return_counts=True)
    return Histogram(
        lower_ns=lower.tolist(),
        count=count.tolist(),
        min_ns=int(latency_ns.min()),
        max_ns=int(latency_ns.max()),
    )


def pool(histograms: Sequence[Histogram]) -> Histogram | None:
    """Add histograms of several runs; None when there are none."""
    if not histograms:
        return None
    lower = np.concatenate([np.array(h.lower_ns, dtype=np.int64) for h in histograms])
    count = np.concatenate([np.array(h.count, dtype=np.int64) for h in histograms])
    unique, where = np.unique(lower, return_inverse=True)
    summed = np.zeros(len(unique), dtype=np.int64)
    np.add.at(summed, where, count)
    return Histogram(
        lower_ns=unique.tolist(),
        count=summed.tolist(),
        min_ns=min(h.min_ns for h in histograms),
        max_ns=max(h.max_ns for h in histograms),
    )


def pooled_distribution(pooled: Histogram) -> Distribution:
    """Percentiles of a histogram: the upper end of the bucket that holds the rank, at most the maximum."""
    lower = np.array(pooled.lower_ns, dtype=np.int64)
    cumulated = np.cumsum(np.array(pooled.count, dtype=np.int64))
    n = int(cumulated[-1])

    def upper_ns(low: int) -> int:
        return min(low + (1 << max(low.bit_length() - (_SUB_BITS + 1), 0)) - 1, pooled.max_ns)

    def at(numerator: int, denominator: int) -> float:
        rank = quantile_rank(n, numerator, denominator)
        return upper_ns(int(lower[np.searchsorted(cumulated, rank, side="right")])) / 1000

    middle = sum(
        (low + upper_ns(low)) / 2 * count for low, count in zip(pooled.lower_ns, pooled.count, strict=True)
    )
    return Distribution(
        n=n,
        min_us=pooled.min_ns / 1000,
        max_us=pooled.max_ns / 1000,
        mean_us=round(middle / n / 1000, 3),
        **{key: at(*fraction) for key, fraction in PERCENTILES.items()},
    )


def bootstrap_interval(values: Sequence[float], resamples: int = 10_000) -> tuple[float, float]:
    """95 % percentile-bootstrap interval of the median of `values` (at least one); seeded, so repeatable.

    Efron's percentile method: resample with replacement, take the median of each, cut 2.5 % at both ends.
    """
    data = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(_BOOTSTRAP_SEED).integers(0, len(data), size=(resamples, len(data)))
    low, high = np.percentile(np.median(data[drawn], axis=1), [2.5, 97.5])
    return float(low), float(high)


def spread(values: Sequence[float]) -> Spread:
    """Minimum, median, mean and maximum over runs (at least one), with the interval from 10 runs on."""
    data = np.asarray(values, dtype=np.float64)
    return Spread(
        min=float(data.min()),
        median=float(np.median(data)),
        mean=float(data.mean()),
        max=float(data.max()),
        interval=bootstrap_interval(values) if len(values) >= _BOOTSTRAP_RUNS else None,
    )


def across_runs(runs: Sequence[Distribution | None]) -> dict[str, Spread]:
    """For each of SUMMARY_KEYS the spread over the runs that have a distribution; empty when none has."""
    present = [run for run in runs if run is not None]
    if not present:
        return {}
    return {key: spread([getattr(run, key) for run in present]) for key in SUMMARY_KEYS}


def medians(runs: Sequence[Distribution | None]) -> dict[str, float | None]:
    """The published form of a distribution: each of SUMMARY_KEYS as its median over runs, or None."""
    over = across_runs(runs)
    return {key: round(over[key].median, 4) if key in over else None for key in SUMMARY_KEYS}
