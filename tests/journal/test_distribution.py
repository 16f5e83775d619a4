"""Quantiles, histograms and intervals against their definitions."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tapewire.journal.distribution import (
    PERCENTILES,
    across_runs,
    bootstrap_interval,
    distribution,
    histogram,
    medians,
    pool,
    pooled_distribution,
    quantile_rank,
    spread,
)

latencies = st.lists(st.integers(0, 1 << 40), min_size=1, max_size=300)


def test_nearest_rank_by_hand() -> None:
    values = np.arange(1000, 0, -1) * 1000
    summary = distribution(values)
    assert summary is not None
    assert (summary.min_us, summary.p50_us, summary.p90_us) == (1.0, 500.0, 900.0)
    assert (summary.p99_us, summary.p999_us, summary.max_us, summary.n) == (990.0, 999.0, 1000.0, 1000)
    assert quantile_rank(1, 999, 1000) == 0
    assert quantile_rank(5, 50, 100) == 2


@given(latencies)
def test_quantiles_are_values_that_occurred_at_the_defined_rank(values: list[int]) -> None:
    summary = distribution(np.array(values, dtype=np.int64))
    assert summary is not None
    ordered = sorted(values)
    for key, (numerator, denominator) in PERCENTILES.items():
        rank = max(ceil(Fraction(numerator, denominator) * len(values)), 1)
        assert round(getattr(summary, key) * 1000) == ordered[rank - 1]
    assert round(summary.max_us * 1000) == max(values)
    assert round(summary.min_us * 1000) == min(values)


def test_nothing_has_no_distribution() -> None:
    empty = np.empty(0, dtype=np.int64)
    assert distribution(empty) is None
    assert histogram(empty) is None
    assert pool([]) is None
    assert across_runs([None]) == {}
    assert medians([None]) == {
        "p50_us": None,
        "p90_us": None,
        "p99_us": None,
        "p999_us": None,
        "max_us": None,
    }


@given(latencies)
def test_buckets_hold_their_values_and_are_narrow(values: list[int]) -> None:
    counted = histogram(np.array(values, dtype=np.int64))
    assert counted is not None
    assert sum(counted.count) == len(values)
    assert (counted.min_ns, counted.max_ns) == (min(values), max(values))
    for value in values:
        lower = max(low for low in counted.lower_ns if low <= value)
        assert value - lower <= max(lower // 128, 0)


@given(st.lists(latencies, min_size=1, max_size=4))
def test_pooled_percentiles_are_at_most_one_bucket_off(runs: list[list[int]]) -> None:
    parts = [histogram(np.array(run, dtype=np.int64)) for run in runs]
    pooled = pool([part for part in parts if part is not None])
    assert pooled is not None
    every = np.array([value for run in runs for value in run], dtype=np.int64)
    exact, rough = distribution(every), pooled_distribution(pooled)
    assert exact is not None
    assert (rough.n, rough.min_us, rough.max_us) == (exact.n, exact.min_us, exact.max_us)
    for key in PERCENTILES:
        true, found = getattr(exact, key), getattr(rough, key)
        assert true <= found <= true * (1 + 1 / 128) + 1e-9


def test_spread_over_runs() -> None:
    few = spread([3.0, 1.0, 2.0, 10.0])
    assert (few.min, few.median, few.mean, few.max, few.interval) == (1.0, 2.5, 4.0, 10.0, None)
    many = spread([float(i) for i in range(1, 12)])
    assert many.interval is not None
    assert many.interval[0] <= many.median <= many.interval[1]


def test_bootstrap_repeats_itself_and_narrows() -> None:
    values = [1.0 + 0.1 * (i % 5) for i in range(40)]
    first = bootstrap_interval(values)
    assert first == bootstrap_interval(values)
    assert bootstrap_interval([2.0] * 12) == (2.0, 2.0)
    assert first[1] - first[0] <= max(values) - min(values)
