"""Ratios of a figure to its floor, over runs taken in alternation: floor, ours, floor, ours, ..., floor."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np

from ..journal.distribution import PERCENTILES, Distribution, bootstrap_interval

__all__ = ["BOOTSTRAP_RUNS", "PairedRatio", "latency_ratios", "paired_ratio", "ratio_json"]

BOOTSTRAP_RUNS = 10


class PairedRatio(msgspec.Struct, frozen=True, kw_only=True):
    """How one figure compares with its floor.

    `median` is over the paired runs (run i against the floor taken just before it). `interval` is the
    bootstrap 95 % interval of that median from 10 pairs on, below that the range of the pairs.
    `floor_against_floor` is (minimum, median, maximum) of each floor over the one before it, None with
    fewer than two floors: a ratio inside that spread is not a difference.
    """

    median: float
    interval: tuple[float, float]
    interval_kind: Literal["bootstrap 95 %", "range"]
    floor_against_floor: tuple[float, float, float] | None
    pairs: int


def paired_ratio(ours: Sequence[float], floors: Sequence[float]) -> PairedRatio | None:
    """Ratio of `ours[i]` to `floors[i]`; further floors only widen the spread.

    Needs as many floors as figures, at least. Pairs whose floor is 0 cannot be compared and are left out;
    None when no pair is left.
    """
    if len(floors) < len(ours):
        raise ValueError(f"{len(ours)} runs need as many floors, there are {len(floors)}")
    ratios = [own / floor for own, floor in zip(ours, floors, strict=False) if floor > 0]
    if not ratios:
        return None
    successive = [later / earlier for earlier, later in pairwise(floors) if earlier > 0]
    enough = len(ratios) >= BOOTSTRAP_RUNS
    return PairedRatio(
        median=float(np.median(ratios)),
        interval=bootstrap_interval(ratios) if enough else (min(ratios), max(ratios)),
        interval_kind="bootstrap 95 %" if enough else "range",
        floor_against_floor=(
            (min(successive), float(np.median(successive)), max(successive)) if successive else None
        ),
        pairs=len(ratios),
    )


def latency_ratios(ours: Sequence[Distribution], floors: Sequence[Distribution]) -> dict[str, PairedRatio]:
    """`paired_ratio` of each percentile, keyed p50, p90, p99, p999."""
    found = {
        key.removesuffix("_us"): paired_ratio(
            [getattr(run, key) for run in ours], [getattr(floor, key) for floor in floors]
        )
        for key in PERCENTILES
    }
    return {key: ratio for key, ratio in found.items() if ratio is not None}


def ratio_json(ratios: dict[str, PairedRatio]) -> dict[str, object]:
    """The `ratio` object of the JSON contract: numbers by key, their intervals and spreads beside them."""
    return {
        **{key: round(ratio.median, 4) for key, ratio in ratios.items()},
        "interval": {key: [round(end, 4) for end in ratio.interval] for key, ratio in ratios.items()},
        "interval_kind": next((ratio.interval_kind for ratio in ratios.values()), "range"),
        "pairs": {key: ratio.pairs for key, ratio in ratios.items()},
        "floor_against_floor": {
            key: dict(
                zip(("min", "median", "max"), (round(x, 4) for x in ratio.floor_against_floor), strict=True)
            )
            for key, ratio in ratios.items()
            if ratio.floor_against_floor is not None
        },
    }
