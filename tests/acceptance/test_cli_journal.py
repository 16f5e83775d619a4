"""`tapewire journal` and `tapewire runs` on a small run that is made here, by the real command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tapewire.journal import Writer
from tapewire.runtime.cpu import allowed_cpus
from tapewire.runtime.effective import resolve
from tapewire.runtime.environment import ClockAnchor, process_start_time
from tapewire.runtime.manifest import Manifest, ProcessIdentity, new_manifest
from tapewire.runtime.topology import load_topology

MD, TD, STRATEGY = 1, 2, 4
CYCLES = 300
DEPTH = 1


def tapewire(*arguments: str, runs: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "tapewire", *arguments],
        env={**os.environ, "TAPEWIRE_RUNS": str(runs)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def append_cycle(md: Writer, strategy: Writer, td: Writer, cycle: int) -> None:
    """A depth, the order it caused, its report and its fill."""
    depth = md.append("depth", depth_payload(cycle))
    root = (MD, depth, DEPTH)
    order_id = STRATEGY << 48 | cycle
    order = {"order_id": order_id, "instrument_id": 1, "side": 1, "price": 100_010_000_000}
    sent = strategy.append(
        "order_input",
        **order,
        quantity=1_000_000,
        action=1,
        order_type=1,
        time_in_force=1,
        request_id=cycle,
        cause=(MD, depth),
        root=root,
    )
    answer = {"cause": (STRATEGY, sent), "root": root, "book_stream": MD, "book_seq": depth}
    td.append("order_report", **order, **answer, quantity=1_000_000, leaves=1_000_000, status=1, action=1)
    td.append("fill", **order, **answer, quantity=1_000_000, exec_id=cycle, liquidity=2, fee=-50_000)


def depth_payload(update_id: int) -> bytes:
    import numpy as np

    from tapewire.journal.format import HEADER_BYTES, row_dtype

    row = np.zeros(1, row_dtype("depth"))
    row["instrument_id"], row["update_id"] = 1, update_id
    row["bid_count"], row["ask_count"] = 2, 1
    row["bids"][0, 0] = (100_000_000_000, 5_000_000)
    row["bids"][0, 1] = (99_990_000_000, 7_000_000)
    row["asks"][0, 0] = (100_010_000_000, 6_000_000)
    return row.tobytes()[HEADER_BYTES:]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("runs")
    run = base / "mine"
    run.mkdir()
    topology = load_topology("demo", ["instruments.DEMO.maker_fee=0"])
    now = time.monotonic_ns()
    manifest = new_manifest(
        topology,
        resolve(topology, allowed_cpus()).values(),
        name="mine",
        live_dir="/dev/shm/tapewire-that-never-was",
        argv=[],
        clock=ClockAnchor(monotonic_ns=now, realtime_ns=1_723_161_253_000_000_000),
        versions={},
        environment={},
    )
    manifest.state = "finished"
    manifest.save(run)
    with (
        Writer(run, "md", MD, page_bytes=65536) as md,
        Writer(run, "strategy", STRATEGY, page_bytes=65536) as strategy,
        Writer(run, "td", TD, page_bytes=65536) as td,
    ):
        for cycle in range(1, CYCLES + 1):
            append_cycle(md, strategy, td, cycle)
        md.append("text", "über".encode())
        md.append("user1001", b"\x01\x02")
    return base


def test_ls(runs: Path) -> None:
    rows = {row["stream"]: row for row in json.loads(tapewire("journal", "ls", "last", "--json", runs=runs))}
    assert list(rows) == ["md", "td", "strategy"]
    assert rows["md"]["last_seq"] == CYCLES + 2
    assert rows["td"]["last_seq"] == 2 * CYCLES
    assert rows["md"]["pages"] > 1
    assert all(row["clean"] and row["first_seq"] == 1 for row in rows.values())
    assert "strategy" in tapewire("journal", "ls", "mine", runs=runs)


def test_cat_is_for_people(runs: Path) -> None:
    lines = tapewire("journal", "cat", "mine", "--limit", "4", runs=runs).splitlines()
    assert lines[0].startswith("time (UTC)")
    assert [line.split(maxsplit=1)[0][:19] for line in lines[1:]] == ["2024-08-08T23:54:13"] * 4
    depth, order, report, fill = (line.split(maxsplit=5)[1:] for line in lines[1:])
    assert depth[:4] == ["md", "1", "depth", "-"]
    assert depth[4] == "DEMO 100.00 x 0.005 | 100.01 x 0.006 levels 2+1 update 1"
    assert order[:4] == ["strategy", "1", "order_input", "md:1"]
    assert order[4] == "strategy#1 new buy 0.001 DEMO @ 100.01 gtc request 1"
    assert report[4] == "strategy#1 accepted buy 0.001 DEMO @ 100.01 filled 0.000 leaves 0.001 book md:1"
    assert fill[4] == "strategy#1 buy 0.001 DEMO @ 100.01 taker leaves 0.000 fee -0.00005 exec 1 book md:1"


def test_cat_as_json_lines(runs: Path) -> None:
    (fill,) = json_lines(
        tapewire("journal", "cat", "mine", "--type", "fill", "--limit", "1", "--json", runs=runs)
    )
    assert fill["stream"] == "td"
    assert fill["cause"] == {"stream": "strategy", "seq": 1}
    assert fill["root"] == {"stream": "md", "seq": 1}
    assert fill["root_type"] == "depth"
    assert fill["fields"]["price"] == "100.01"
    assert fill["fields"]["fee"] == "-0.00005"
    assert fill["fields"]["order_id"] == STRATEGY << 48 | 1


def test_cat_is_in_the_total_order(runs: Path) -> None:
    frames = json_lines(tapewire("journal", "cat", "mine", "--json", runs=runs))
    assert len(frames) == 4 * CYCLES + 2
    keys = [(frame["epoch"], frame["gen_time"]) for frame in frames]
    assert keys == sorted(keys)


def test_filters(runs: Path) -> None:
    def seqs(*filters: str) -> list[tuple[str, int]]:
        frames = json_lines(tapewire("journal", "cat", "mine", "--json", *filters, runs=runs))
        return [(frame["stream"], frame["seq"]) for frame in frames]

    assert seqs("--stream", "md", "--from-seq", "3", "--to-seq", "5") == [("md", n) for n in (3, 4, 5)]
    assert seqs("--type", "text", "--type", "user1001") == [("md", CYCLES + 1), ("md", CYCLES + 2)]
    both = seqs("--stream", "md", "--stream", "strategy", "--to-seq", "2")
    assert sorted(both) == [("md", 1), ("md", 2), ("strategy", 1), ("strategy", 2)]

    depths = json_lines(tapewire("journal", "cat", "mine", "--json", "--type", "depth", runs=runs))
    first, last = depths[10], depths[19]
    expected = [("md", depth["seq"]) for depth in depths[10:20]]
    for key in ("time", "gen_time"):
        bounds = ["--from-time", str(first[key]), "--to-time", str(last[key])]
        assert seqs("--type", "depth", *bounds) == expected
        assert seqs("--type", "depth", "--from-seq", "1", *bounds) == expected


def test_tail(runs: Path) -> None:
    everything = json_lines(tapewire("journal", "cat", "mine", "--json", runs=runs))
    assert json_lines(tapewire("journal", "tail", "mine", "-n", "7", "--json", runs=runs)) == everything[-7:]
    fills = [frame for frame in everything if frame["type"] == "fill"]
    rare = tapewire("journal", "tail", "mine", "-n", "3", "--type", "fill", "--json", "--follow", runs=runs)
    assert json_lines(rare) == fills[-3:]
    assert tapewire("journal", "tail", "mine", "-n", "0", "--json", runs=runs) == ""


def test_stat(runs: Path) -> None:
    rows = json.loads(tapewire("journal", "stat", "mine", "--json", runs=runs))
    counts = {(row["stream"], row["type"]): row["frames"] for row in rows}
    assert counts == {
        ("md", "depth"): CYCLES,
        ("md", "text"): 1,
        ("md", "user1001"): 1,
        ("strategy", "order_input"): CYCLES,
        ("td", "order_report"): CYCLES,
        ("td", "fill"): CYCLES,
    }
    table = tapewire("journal", "stat", "mine", "--stream", "md", "--type", "depth", runs=runs).splitlines()
    assert len(table) == 2
    assert table[1].split()[:3] == ["md", "depth", str(CYCLES)]


def test_tail_follows_a_run_until_it_is_over(tmp_path: Path, runs: Path) -> None:
    run = tmp_path / "mine"
    run.mkdir()
    manifest = Manifest.load(runs / "mine")
    manifest.state = "running"
    start_time = process_start_time(os.getpid())
    assert start_time is not None
    manifest.master = ProcessIdentity(pid=os.getpid(), start_time=start_time)
    manifest.save(run)
    with (
        Writer(run, "md", MD, page_bytes=65536) as md,
        Writer(run, "strategy", STRATEGY, page_bytes=65536) as strategy,
        Writer(run, "td", TD, page_bytes=65536) as td,
    ):
        append_cycle(md, strategy, td, 1)
        follower = subprocess.Popen(
            [sys.executable, "-m", "tapewire", "journal", "tail", str(run), "-n", "1", "-f", "--json"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert follower.stdout is not None
        assert json.loads(follower.stdout.readline())["type"] == "fill"
        for cycle in range(2, CYCLES + 1):
            append_cycle(md, strategy, td, cycle)
        manifest.state = "finished"
        manifest.save(run)
        rest = json_lines(follower.communicate(timeout=30)[0])
    assert follower.returncode == 0
    assert len(rest) == 4 * (CYCLES - 1)


def test_runs(runs: Path, tmp_path: Path) -> None:
    (row,) = json.loads(tapewire("runs", "--json", runs=runs))
    assert row["name"] == "mine"
    assert row["status"] == "finished"
    assert "mine" in tapewire("runs", runs=runs)
    assert "no run in" in tapewire("runs", runs=tmp_path)
    assert json.loads(tapewire("runs", "--json", runs=tmp_path)) == []


def test_runs_prune(runs: Path, tmp_path: Path) -> None:
    import shutil

    for name in ("a", "b"):
        shutil.copytree(runs / "mine", tmp_path / name)
    (would,) = json.loads(tapewire("runs", "prune", "--keep", "1", "--dry-run", "--json", runs=tmp_path))
    assert would["path"] == str(tmp_path / "a")
    assert not would["removed"]
    assert "removed" in tapewire("runs", "prune", "--keep", "1", runs=tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["b"]


def test_a_reader_that_leaves_early_is_no_error(runs: Path) -> None:
    command = f"{sys.executable} -m tapewire journal cat mine --json | head -n 1"
    result = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "TAPEWIRE_RUNS": str(runs)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert len(result.stdout.splitlines()) == 1
    assert result.stderr == ""
