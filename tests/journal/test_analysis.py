"""`analyze` and `aggregate` on small journals on disk."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapewire.journal import Writer
from tapewire.journal.aggregate import aggregate, aggregate_runs
from tapewire.journal.analysis import (
    ANALYSIS_FILE,
    Analysis,
    analyze,
    fingerprint,
    load_or_analyze,
    write_csv,
)
from tapewire.journal.errors import RunNotFound

MD, TD, STRATEGY = 1, 2, 3
DEPTH_TYPE, TIMER_TYPE = 1, 7

MANIFEST: dict[str, Any] = {
    "format": 1,
    "state": "finished",
    "topology": "small",
    "config": {"run": {"latency": "median"}},
    "environment": {"cpu_model": "a test"},
    "processes": {
        "md": {"role": "market_data", "wait": "sleep-spin", "cpu": [0]},
        "td": {"role": "trade_gateway", "wait": "yield", "cpu": [0]},
        "strategy": {"role": "strategy", "wait": "yield", "cpu": [1]},
    },
    "streams": [
        {"id": MD, "name": "md", "process": "md", "kind": "data"},
        {"id": TD, "name": "td", "process": "td", "kind": "data"},
        {"id": STRATEGY, "name": "strategy", "process": "strategy", "kind": "data"},
    ],
    "instruments": [{"id": 1, "symbol": "SIM"}],
}


def extend_run(run_dir: Path, cycles: int, *, unanswered: int = 0) -> None:
    """Append `cycles` depth -> order -> report cycles in real time, then orders that stay unanswered."""
    with (
        Writer(run_dir, "md", MD, page_bytes=65536) as md,
        Writer(run_dir, "td", TD, page_bytes=65536) as td,
        Writer(run_dir, "strategy", STRATEGY, page_bytes=65536) as strategy,
    ):
        for number in range(cycles + unanswered):
            depth = md.append("depth", instrument_id=1)
            root = (MD, depth, DEPTH_TYPE)
            order = strategy.append("order_input", instrument_id=1, cause=(MD, depth), root=root)
            if number < cycles:
                td.append("order_report", instrument_id=1, cause=(STRATEGY, order), root=root)


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    def make(name: str, cycles: int, **more: int) -> Path:
        run_dir = tmp_path / name
        run_dir.mkdir()
        (run_dir / "manifest.json").write_text(json.dumps({**MANIFEST, "name": name}))
        extend_run(run_dir, cycles, **more)
        return run_dir

    return make


def test_analyze_counts_everything_and_saves(make_run: Callable[..., Path]) -> None:
    run_dir = make_run("a", 30, unanswered=4)
    analysis, cycles = analyze(run_dir, warmup=10)
    (run,) = analysis.runs
    assert (run.input_orders, run.kept, len(cycles.status)) == (34, 20, 30)
    assert analysis.rejected == {
        "warmup": 10,
        "negative": 0,
        "overflow": 0,
        "without_report": 4,
        "duplicate": 0,
        "root_missing": 0,
        "other_root": 0,
    }
    assert sum(analysis.rejected.values()) + analysis.results["kept"] == analysis.results["input"]
    assert run.wait == {"md": "sleep-spin", "td": "yield", "strategy": "yield"}
    assert analysis.environment == {"cpu_model": "a test"}
    assert set(analysis.results) >= {"p50_us", "p90_us", "p99_us", "p999_us", "max_us"}
    saved = msgspec.json.decode((run_dir / ANALYSIS_FILE).read_bytes(), type=Analysis)
    assert saved == analysis


def test_a_journal_without_a_manifest_is_enough(make_run: Callable[..., Path]) -> None:
    run_dir = make_run("a", 5)
    (run_dir / "manifest.json").unlink()
    (run,) = analyze(run_dir, warmup=0)[0].runs
    assert (run.kept, run.state, run.wait) == (5, "unknown", {})


def test_a_run_without_a_cycle_has_accounts_and_no_percentiles(make_run: Callable[..., Path]) -> None:
    analysis, _ = analyze(make_run("a", 0, unanswered=3))
    assert analysis.rejected["without_report"] == 3
    assert analysis.results["p50_us"] is None
    assert analysis.runs[0].stages["depth_to_report"] is None


def test_no_run() -> None:
    with pytest.raises(RunNotFound):
        analyze("/nowhere/at/all")


def test_saved_analysis_is_used_while_it_matches(make_run: Callable[..., Path], tmp_path: Path) -> None:
    run_dir = make_run("a", 20)
    first, _ = analyze(run_dir, warmup=2)
    doctored = msgspec.structs.replace(first, version="as saved")
    (run_dir / ANALYSIS_FILE).write_bytes(msgspec.json.encode(doctored))
    assert load_or_analyze(run_dir, warmup=2).version == "as saved"
    copied = tmp_path / "copied"
    shutil.copytree(run_dir, copied)
    assert fingerprint(copied) == fingerprint(run_dir)
    assert load_or_analyze(copied, warmup=2).version == "as saved"
    assert load_or_analyze(run_dir, warmup=3).version != "as saved"  # other rules


def test_saved_analysis_is_not_used_once_the_journal_grew(make_run: Callable[..., Path]) -> None:
    run_dir = make_run("a", 20)
    analyze(run_dir, warmup=0)
    extend_run(run_dir, 7)
    assert load_or_analyze(run_dir, warmup=0).runs[0].kept == 27


@pytest.mark.parametrize("broken", [b"", b"{}", b"\xff\xfe", b'{"format": 99}'])
def test_an_unreadable_saved_analysis_is_replaced(make_run: Callable[..., Path], broken: bytes) -> None:
    run_dir = make_run("a", 6)
    (run_dir / ANALYSIS_FILE).write_bytes(broken)
    assert load_or_analyze(run_dir, warmup=0).runs[0].kept == 6
    assert msgspec.json.decode((run_dir / ANALYSIS_FILE).read_bytes(), type=Analysis).runs[0].kept == 6


def test_csv_has_every_matched_cycle(make_run: Callable[..., Path], tmp_path: Path) -> None:
    run_dir = make_run("a", 12)
    _, cycles = analyze(run_dir, warmup=5)
    path = tmp_path / "cycles.csv"
    assert write_csv(run_dir, cycles, path) == 12
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["status"] for row in rows] == ["warmup"] * 5 + ["kept"] * 7
    assert {row["instrument"] for row in rows} == {"SIM"}
    assert {(row["root_stream"], row["order_stream"], row["report_stream"]) for row in rows} == {
        ("md", "strategy", "td")
    }
    for row in rows:
        assert int(row["depth_to_report_ns"]) == int(row["report_ns"]) - int(row["depth_ns"])
        parts = int(row["depth_to_order_ns"]) + int(row["order_to_report_ns"])
        assert parts == int(row["depth_to_report_ns"])


def test_aggregate_sums_counts_and_keeps_pooling_apart(make_run: Callable[..., Path]) -> None:
    runs = [make_run(f"r{i}", 20 + i, unanswered=i) for i in range(3)]
    seen: list[None] = []
    whole = aggregate_runs(runs, warmup=5, progress=lambda: seen.append(None))
    assert len(seen) == len(whole.runs) == 3
    assert whole.results["kept"] == 15 + 16 + 17
    assert whole.rejected["warmup"] == 15
    assert whole.rejected["without_report"] == 0 + 1 + 2
    assert sum(whole.rejected.values()) + whole.results["kept"] == whole.results["input"]
    medians = sorted(
        run.stages["depth_to_report"].p50_us for run in whole.runs if run.stages["depth_to_report"]
    )
    assert whole.results["p50_us"] == medians[1]
    over = whole.across_runs["depth_to_report"]["p50_us"]
    assert (over.min, over.max, over.interval) == (medians[0], medians[2], None)
    pooled = whole.pooled["depth_to_report"]
    assert pooled is not None
    assert pooled.n == whole.results["kept"]
    again = aggregate([load_or_analyze(run, warmup=5) for run in runs])
    assert again == whole


def test_facts_that_differ_between_runs_are_mixed(make_run: Callable[..., Path]) -> None:
    here, there = make_run("here", 3), make_run("there", 3)
    manifest = json.loads((there / "manifest.json").read_text())
    manifest["environment"] = {"cpu_model": "another", "smt": "off"}
    (there / "manifest.json").write_text(json.dumps(manifest))
    assert aggregate_runs([here, there], warmup=0).environment == {"cpu_model": "mixed", "smt": "mixed"}
