"""What a benchmark publishes: the JSON every bench shares, and the tables a person reads."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from ..journal.accounts import Accounts
from ..journal.aggregate import Aggregate
from ..journal.analysis import RunAnalysis
from ..journal.cycles import STAGES
from ..journal.distribution import SUMMARY_KEYS, Distribution, Spread, across_runs, medians
from ..journal.errors import TapewireError
from ..whole_table import print_whole
from .stats import PairedRatio

__all__ = [
    "BenchResult",
    "make_console",
    "print_accounts",
    "print_across_runs",
    "print_costs",
    "print_policies",
    "print_pooled",
    "print_ratios",
    "print_rolls",
    "print_stages",
    "write_json",
]

LABELS = {"p50_us": "p50", "p90_us": "p90", "p99_us": "p99", "p999_us": "p99.9", "max_us": "max"}
STAGE_LABELS = {
    "depth_to_order": "depth → order input",
    "order_to_report": "order input → first report",
    "depth_to_report": "depth → first report",
}
REASONS = {
    "warmup": "warm-up",
    "without_report": "orders without a report",
    "duplicate": "further orders of a root",
    "root_missing": "root not in the journal",
    "other_root": "rooted elsewhere",
    "negative": "negative",
    "overflow": "overflowing",
}


# Wide enough that a table written to a file or a pipe is never folded.
_PIPE_WIDTH = 1000


def make_console() -> Console:
    """The console tables are printed to: stdout, never folded when it is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)


class BenchResult(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of a bench. Times carry their unit in the key; `rejected` plus what was kept is the input."""

    bench: str
    version: str
    environment: dict[str, Any]
    config: dict[str, Any]
    runs: list[dict[str, Any]]
    results: dict[str, Any]
    floor: dict[str, Any]
    ratio: dict[str, Any]
    rejected: dict[str, int]


def write_json(result: msgspec.Struct, path: Path) -> None:
    """Write a result as indented JSON; raises TapewireError when the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    except OSError as error:
        raise TapewireError(f"{path}: cannot write the result: {error.strerror}") from error


def number(value: float | None) -> str:
    """A latency in microseconds for a table cell: three digits that matter, "–" for none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.1f}" if abs(value) >= 100 else f"{value:.2f}"


def _interval(ends: tuple[float, float] | None) -> str:
    return "–" if ends is None else f"{number(ends[0])} – {number(ends[1])}"


def print_across_runs(console: Console, runs: Sequence[Distribution | None], title: str) -> None:
    """For each percentile its minimum, median, mean and maximum over runs."""
    spreads: Mapping[str, Spread] = across_runs(runs)
    table = Table(title=title, title_justify="left")
    table.add_column("µs")
    for heading in ("minimum", "median", "mean", "maximum"):
        table.add_column(heading, justify="right")
    with_interval = any(spread.interval is not None for spread in spreads.values())
    if with_interval:
        table.add_column("95 % interval of the median", justify="right")
    for key in SUMMARY_KEYS:
        spread = spreads.get(key)
        cells = [number(getattr(spread, part, None)) for part in ("min", "median", "mean", "max")]
        if with_interval:
            cells.append(_interval(spread.interval if spread is not None else None))
        table.add_row(LABELS[key], *cells)
    print_whole(console, table)


def print_stages(console: Console, runs: Sequence[Mapping[str, Distribution | None]]) -> None:
    """The three stages, each percentile as its median over runs."""
    over = f", median over {len(runs)} runs" if len(runs) > 1 else ""
    table = Table(
        title=f"stages{over}",
        title_justify="left",
        caption="marginal: each stage has its own ranking, so the columns do not add up",
        caption_justify="left",
    )
    table.add_column("µs")
    for key in SUMMARY_KEYS:
        table.add_column(LABELS[key], justify="right")
    for stage in STAGES:
        row = medians([run.get(stage) for run in runs])
        table.add_row(STAGE_LABELS[stage], *(number(row[key]) for key in SUMMARY_KEYS))
    print_whole(console, table)


def print_ratios(
    console: Console,
    ratios: Mapping[str, PairedRatio],
    ours: Mapping[str, float | None],
    floor: Mapping[str, float | None],
    floor_name: str = "the relay floor",
) -> None:
    """Ours, the floor, their paired ratio with its interval, and how far floors lie apart themselves."""
    kind = next((ratio.interval_kind for ratio in ratios.values()), "range")
    pairs = max((ratio.pairs for ratio in ratios.values()), default=0)
    table = Table(
        title=f"ratio to {floor_name}, median of {pairs} paired runs",
        title_justify="left",
        caption="a ratio inside the floor-against-floor spread is not a difference",
        caption_justify="left",
    )
    for heading in (
        "µs",
        "ours",
        "floor",
        "ratio",
        f"interval ({kind})",
        "floor / floor before it (min – max)",
    ):
        table.add_column(heading, justify="left" if heading == "µs" else "right")
    for key, ratio in ratios.items():
        spread = ratio.floor_against_floor
        table.add_row(
            LABELS[f"{key}_us"],
            number(ours.get(f"{key}_us")),
            number(floor.get(f"{key}_us")),
            f"[bold]{number(ratio.median)}[/bold]",
            _interval(ratio.interval),
            _interval((spread[0], spread[2])) if spread is not None else "–",
        )
    print_whole(console, table)


def print_pooled(console: Console, aggregate: Aggregate) -> None:
    """Percentiles of all cycles of all runs thrown together, from histograms; nothing without a cycle."""
    if not any(aggregate.pooled.values()):
        return
    table = Table(
        title=f"pooled over {len(aggregate.runs)} runs, from histograms (buckets within 1/128)",
        title_justify="left",
        caption="another question than the tables above: one slow run moves all of its percentiles",
        caption_justify="left",
    )
    table.add_column("µs")
    for heading in ("cycles", "min", *(LABELS[key] for key in SUMMARY_KEYS)):
        table.add_column(heading, justify="right")
    for stage in STAGES:
        pooled = aggregate.pooled.get(stage)
        if pooled is not None:
            cells = (number(getattr(pooled, key)) for key in ("min_us", *SUMMARY_KEYS))
            table.add_row(STAGE_LABELS[stage], f"{pooled.n:,}", *cells)
    print_whole(console, table)


def print_accounts(console: Console, accounts: Sequence[Accounts]) -> None:
    """Where every order input and every report went, summed over runs."""

    def total(name: str) -> int:
        return sum(int(getattr(run, name)) for run in accounts)

    rejected: dict[str, int] = {}
    by_type: dict[str, int] = {}
    for run in accounts:
        for reason, count in run.rejected().items():
            rejected[reason] = rejected.get(reason, 0) + count
        for root, count in run.orders_other_root_by_type.items():
            by_type[root] = by_type.get(root, 0) + count
    left_out = [f"{count:,} {REASONS[reason]}" for reason, count in rejected.items() if count]
    console.print(
        f"{total('orders'):,} orders = {total('kept'):,} kept" + "".join(f" + {part}" for part in left_out),
        highlight=False,
    )
    if by_type:
        names = ", ".join(f"{name} {count:,}" for name, count in sorted(by_type.items()))
        console.print(f"  roots of the orders that are not rooted in a depth: {names}", highlight=False)
    reports = {
        "first answers": total("cycles"),
        "further answers": total("reports_duplicate"),
        "fills of resting orders": total("reports_market_caused"),
        "refused by the strategy process": total("reports_local_refusal"),
        "rooted elsewhere": total("reports_other_root"),
        "without an order": total("reports_without_order"),
        "root not in the journal": total("reports_root_missing"),
    }
    parts = " + ".join(f"{count:,} {what}" for what, count in reports.items() if count)
    console.print(f"{total('reports'):,} reports and fills = {parts or 0}", highlight=False)


def print_policies(console: Console, run: RunAnalysis) -> None:
    """Wait policy and CPUs in force, one line: no latency is published without them."""
    parts = [f"{name} {wait} on {cpu_text(run.cpu.get(name))}" for name, wait in run.wait.items()]
    console.print(
        f"wait policy in force: {'; '.join(parts) or 'unknown'} (profile: {run.latency_profile})",
        highlight=False,
    )


def cpu_text(cpu: object) -> str:
    """CPUs as a person writes them."""
    if isinstance(cpu, list):
        return "CPU " + ",".join(map(str, cpu)) if cpu else "any CPU"
    return f"CPU {cpu}" if isinstance(cpu, int) else "any CPU"


_COSTS = {
    "append_ns": "append, 200 B payload (ns)",
    "merged_read_ns": "merged read, 72 B payload (ns per frame)",
    "merged_read_verified_ns": "the same, every CRC checked (ns per frame)",
    "merged_read_large_ns": "merged read, 200 B payload (ns per frame)",
    "read_batch_frames_per_s": "Python read_batch (frames/s)",
    "read_batch_rows_frames_per_s": "Python read_batch with .rows (frames/s)",
    "read_frames_per_s": "Python, frame by frame (frames/s)",
    "published_events_per_s": "depth events published (1/s)",
    "pipeline_events_per_s": "depth events, first depth to last report (1/s)",
    "start_s": "launch to first Depth (s)",
    "rss_anon_mb": "private memory of the largest process (MB)",
}


def print_costs(console: Console, result: BenchResult, ratios: Mapping[str, PairedRatio], title: str) -> None:
    """Costs and rates: ours, the floor, the paired ratio with its interval and the floor's own spread."""
    kind = next((ratio.interval_kind for ratio in ratios.values()), "range")
    runs = f"median of {len(result.runs)} runs" if len(result.runs) > 1 else "one run"
    table = Table(title=f"{title}, {runs}", title_justify="left")
    table.add_column("")
    for heading in ("ours", "floor", "ratio", f"interval ({kind})", "floor / floor before"):
        table.add_column(heading, justify="right")
    for key, ratio in ratios.items():
        spread = ratio.floor_against_floor
        ours = result.results[key]
        table.add_row(
            _COSTS.get(key, key),
            number(ours),
            number(result.floor[key]),
            f"[bold]{number(ratio.median)}[/bold]",
            _interval(ratio.interval),
            _interval((spread[0], spread[2])) if spread is not None else "–",
        )
    print_whole(console, table)


def print_rolls(console: Console, results: Mapping[str, Any]) -> None:
    """The appends that rolled, paced and saturated."""
    table = Table(title="the append that rolls into the next page", title_justify="left")
    table.add_column("")
    for heading in ("rolls", "roll p50 µs", "roll p99 µs", "roll max µs", "append p50 ns", "append max µs",
                    "frames/s", "next page not ready"):  # fmt: skip
        table.add_column(heading, justify="right")
    for key, label in (("rolls_paced", "paced"), ("rolls_saturated", "saturated")):
        rolls = results[key]
        table.add_row(
            label,
            f"{rolls['rolls']:,}",
            number(rolls["roll_p50_ns"] / 1000),
            number(rolls["roll_p99_ns"] / 1000),
            number(rolls["roll_max_ns"] / 1000),
            f"{rolls['append_p50_ns']:.0f}",
            number(rolls["append_max_ns"] / 1000),
            f"{rolls['frames_per_s']:,}",
            f"{rolls['page_not_ready']:,}",
        )
    print_whole(console, table)
