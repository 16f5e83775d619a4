"""The shape of what benches publish: JSON keys and table texts. No times are asserted."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import msgspec
import numpy as np
import pytest
from rich.console import Console

from tapewire.bench import report
from tapewire.bench.floor import FloorSample
from tapewire.bench.journal import JournalOptions, measure_journal
from tapewire.bench.latency import FloorRun, summarise_floor
from tapewire.bench.stats import latency_ratios
from tapewire.journal.accounts import Accounts
from tapewire.journal.analysis import RunAnalysis
from tapewire.journal.distribution import distribution
from tapewire.journal.errors import TapewireError

CONTRACT = {"bench", "version", "environment", "config", "runs", "results", "floor", "ratio", "rejected"}


def accounts(**counts: int) -> Accounts:
    fields: dict[str, object] = dict.fromkeys(Accounts.__struct_fields__, 0)
    by_name = ("orders_other_root_by_type", "reports_other_root_by_type", "negative_by_stage")
    fields.update({name: {} for name in by_name})
    return msgspec.convert({**fields, **counts}, Accounts)


def text_of(show: object, *arguments: object) -> str:
    console = Console(file=StringIO(), width=200)
    show(console, *arguments)  # type: ignore[operator]
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_journal_bench_accounts_for_every_frame_and_follows_the_contract(tmp_path: Path) -> None:
    options = JournalOptions(
        runs=2, rolls=5, page_bytes=65536, frames=2000, chunks=3, chunk_operations=400, live_dir=str(tmp_path)
    )
    steps: list[str] = []
    result, ratios = measure_journal(options, progress=steps.append)
    assert len(steps) == 6
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "deep" / "result.json"
    report.write_json(result, path)
    written = json.loads(path.read_text())
    assert set(written) == CONTRACT
    assert {"append_ns", "merged_read_ns", "read_batch_frames_per_s"} <= set(written["results"])
    assert {"append_ns", "merged_read_ns", "read_batch_frames_per_s"} <= set(written["floor"])
    assert {"append_ns", "merged_read_ns", "read_batch_frames_per_s"} <= set(written["ratio"])
    assert written["results"]["rolls_paced"]["rolls"] == 6
    assert written["results"]["kept"] + sum(written["rejected"].values()) == written["results"]["input"]
    assert "unknown" not in written["environment"]["cpus_usable"]
    shown = text_of(report.print_costs, result, ratios, "journal")
    assert "append, 200 B payload (ns)" in shown
    assert "saturated" in text_of(report.print_rolls, result.results)


def test_accounts_name_what_was_left_out() -> None:
    one = accounts(
        orders=12, kept=5, warmup=2, orders_without_report=1, orders_other_root=4, reports=8, cycles=7,
        reports_market_caused=1,
    )  # fmt: skip
    one = msgspec.structs.replace(one, orders_other_root_by_type={"timer": 3, "trade": 1})
    shown = text_of(report.print_accounts, [one, one])
    assert "24 orders = 10 kept + 4 warm-up + 2 orders without a report + 8 rooted elsewhere" in shown
    assert "timer 6, trade 2" in shown
    assert "16 reports and fills = 14 first answers + 2 fills of resting orders" in shown


def test_percentiles_without_a_cycle_are_dashes() -> None:
    shown = text_of(report.print_stages, [{"depth_to_order": None}])
    assert shown.count("–") == 15
    assert "marginal" in shown


def test_wait_policy_is_printed() -> None:
    run = RunAnalysis(
        run="r", state="finished", topology="t", latency_profile="median",
        wait={"md": "sleep-spin 100us", "td": "yield"}, cpu={"md": [0], "td": []},
        warmup_cycles=0, input_orders=0, kept=0, accounts=accounts(), stages={},
    )  # fmt: skip
    shown = text_of(report.print_policies, run)
    assert "md sleep-spin 100us on CPU 0; td yield on any CPU (profile: median)" in shown


def test_ratio_table_labels_the_interval() -> None:
    one = distribution(np.arange(1, 1001, dtype=np.int64) * 100)
    assert one is not None
    ratios = latency_ratios([one, one], [one, one, one])
    shown = text_of(report.print_ratios, ratios, {"p50_us": 50.0}, {"p50_us": 50.0})
    assert "interval (range)" in shown
    assert "is not a difference" in shown


def test_the_floor_rejects_what_analysis_rejects() -> None:
    depth = np.array([0, 10, 20, 30, 40], dtype=np.int64)
    order = np.array([1, 9, 22, 33, 44], dtype=np.int64)
    last = np.array([3, 15, 24, 36, 40 + (1 << 41)], dtype=np.int64)
    floor = summarise_floor(FloorSample(depth, order, last, 1), 1)
    assert isinstance(floor, FloorRun)
    assert (floor.orders, floor.negative, floor.overflow, floor.warmup, floor.kept) == (5, 1, 1, 1, 2)


def test_an_unwritable_result_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TapewireError, match="cannot write the result"):
        report.write_json(accounts(), tmp_path / "file" / "result.json")
