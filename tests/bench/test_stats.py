"""Paired ratios to a floor."""

from __future__ import annotations

import pytest

from tapewire.bench.stats import BOOTSTRAP_RUNS, latency_ratios, paired_ratio, ratio_json
from tapewire.journal.distribution import Distribution


def summary(p50: float, p90: float = 2.0, p99: float = 3.0, p999: float = 4.0) -> Distribution:
    return Distribution(
        n=10, min_us=0.5, p50_us=p50, p90_us=p90, p99_us=p99, p999_us=p999, max_us=9.0, mean_us=1.0
    )


def test_each_run_is_compared_with_the_floor_before_it() -> None:
    ratio = paired_ratio([2.0, 8.0, 6.0], [1.0, 2.0, 2.0, 100.0])
    assert ratio is not None
    assert ratio.median == 3.0
    assert ratio.interval == (2.0, 4.0)
    assert ratio.interval_kind == "range"
    assert ratio.floor_against_floor == (1.0, 2.0, 50.0)


def test_a_drift_that_both_share_cancels() -> None:
    drift = [1.0, 2.0, 0.5, 4.0, 1.5]
    ratio = paired_ratio([0.7 * x for x in drift], [*drift, 1.0])
    assert ratio is not None
    assert ratio.median == pytest.approx(0.7)
    assert ratio.interval == pytest.approx((0.7, 0.7))


def test_bootstrap_from_ten_pairs_on() -> None:
    ours = [1.0 + 0.01 * i for i in range(BOOTSTRAP_RUNS)]
    ratio = paired_ratio(ours, [1.0] * (BOOTSTRAP_RUNS + 1))
    assert ratio is not None
    assert ratio.interval_kind == "bootstrap 95 %"
    assert min(ours) <= ratio.interval[0] <= ratio.median <= ratio.interval[1] <= max(ours)


def test_too_few_floors() -> None:
    with pytest.raises(ValueError, match="2 runs need as many floors, there are 1"):
        paired_ratio([1.0, 1.0], [1.0])


def test_a_floor_of_zero_cannot_be_compared() -> None:
    assert paired_ratio([1.0], [0.0]) is None
    ratio = paired_ratio([1.0, 3.0], [0.0, 2.0])
    assert ratio is not None
    assert (ratio.median, ratio.pairs) == (1.5, 1)


def test_latency_ratios_per_percentile_and_their_json() -> None:
    ratios = latency_ratios(
        [summary(1.0), summary(2.0)], [summary(2.0, 4.0), summary(2.0, 4.0), summary(2.2)]
    )
    assert list(ratios) == ["p50", "p90", "p99", "p999"]
    assert ratios["p50"].median == 0.75
    assert ratios["p90"].median == 0.5
    published = ratio_json(ratios)
    assert (published["p50"], published["p90"], published["p99"]) == (0.75, 0.5, 1.0)
    assert published["interval"] == {
        "p50": [0.5, 1.0],
        "p90": [0.5, 0.5],
        "p99": [1.0, 1.0],
        "p999": [1.0, 1.0],
    }
    assert published["floor_against_floor"]["p50"] == {"min": 1.0, "median": 1.05, "max": 1.1}  # type: ignore[index]
