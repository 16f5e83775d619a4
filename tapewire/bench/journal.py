"""`tapewire bench journal`: what an append, a page roll and a merged read cost.

The loops are native (native/bench/journal_bench.hpp); this module gives them memory and CPUs, reads from
Python, checks that every frame came through, and summarises.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from .. import _native
from ..journal import Journal
from ..journal.analysis import tapewire_version
from ..journal.distribution import quantile_rank
from ..journal.errors import TapewireError
from ..journal.format import FrameType, payload_bytes
from ..runtime.cpu import allowed_cpus
from ..runtime.environment import capture, load_average
from .report import BenchResult
from .stats import PairedRatio, paired_ratio, ratio_json

__all__ = ["JournalOptions", "measure_journal"]

# The frames that Python reads: a fixed payload of the usual size.
_READ_TYPE = FrameType.ORDER_REPORT
# Each read is repeated within a run, and its median taken.
_REPEATS = 3
# Their floor is the native merged read of the same frames.
_FLOOR_OF = {
    "append_ns": "append_ns",
    "merged_read_ns": "merged_read_ns",
    "merged_read_verified_ns": "merged_read_ns",
    "merged_read_large_ns": "merged_read_large_ns",
    "read_batch_frames_per_s": "merged_read_frames_per_s",
    "read_batch_rows_frames_per_s": "merged_read_frames_per_s",
    "read_frames_per_s": "merged_read_frames_per_s",
}


@dataclass(frozen=True)
class JournalOptions:
    """What to measure; `rolls` in all, spread over the runs."""

    runs: int = 5
    payload_bytes: int = 200
    page_bytes: int = 16 * 1024 * 1024
    rolls: int = 200
    paced_interval_ns: int = 1000
    streams: int = 4
    frames: int = 2_000_000
    chunks: int = 400
    chunk_operations: int = 1000
    live_dir: str = "/dev/shm"

    @property
    def rolls_per_run(self) -> int:
        """Rolls measured in each run, of each kind."""
        return -(-self.rolls // self.runs)


def measure_journal(
    options: JournalOptions, *, progress: Callable[[str], None] = lambda _what: None
) -> tuple[BenchResult, dict[str, PairedRatio]]:
    """Measure `options.runs` times. Raises TapewireError for missing frames, JournalFull without room."""
    before = load_average()
    writer_cpu, helper_cpus = _cpus()
    runs: list[dict[str, Any]] = []
    floors: list[dict[str, float]] = []
    with _pinned(writer_cpu):
        for number in range(1, options.runs + 1):
            progress(f"append, run {number} of {options.runs}")
            ours, floor = _append(options, helper_cpus)
            progress(f"rolls, run {number} of {options.runs}")
            ours["rolls_paced"] = _rolls(options, helper_cpus, options.paced_interval_ns)
            ours["rolls_saturated"] = _rolls(options, helper_cpus, 0)
            progress(f"reads, run {number} of {options.runs}")
            _reads(options, ours, floor)
            runs.append(ours)
            floors.append(floor)
    ratios = {
        key: ratio
        for key, floor_key in _FLOOR_OF.items()
        if (ratio := paired_ratio([run[key] for run in runs], [floor[floor_key] for floor in floors]))
        is not None
    }
    frames = sum(run["appended_frames"] + run["read_frames"] for run in runs)
    result = BenchResult(
        bench="journal",
        version=tapewire_version(),
        environment={
            **capture(),
            "load_average_before": before,
            "load_average_after": load_average(),
            "cpus": {"writer": writer_cpu, "helper": helper_cpus},
        },
        config=msgspec.to_builtins(options),
        runs=[{**run, "floor": floor} for run, floor in zip(runs, floors, strict=True)],
        results={
            **{key: _median(runs, key) for key in _FLOOR_OF},
            "rolls_paced": _merge_rolls([run["rolls_paced"] for run in runs]),
            "rolls_saturated": _merge_rolls([run["rolls_saturated"] for run in runs]),
            "input": frames,
            "kept": frames,
        },
        floor={
            **{key: _median(floors, floor_key) for key, floor_key in _FLOOR_OF.items()},
            "append_payload_only_ns": _median(floors, "append_payload_only_ns"),
        },
        ratio=ratio_json(ratios),
        rejected={},
    )
    return result, ratios


def _median(runs: list[dict[str, Any]] | list[dict[str, float]], key: str) -> float:
    return round(float(np.median([run[key] for run in runs])), 2)


def _cpus() -> tuple[int, list[int]]:
    """The measured thread's CPU (the last allowed one) and those of its page helper (the others, if any)."""
    allowed = sorted(allowed_cpus())
    return allowed[-1], allowed[:-1] or allowed


@contextmanager
def _pinned(cpu: int) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [cpu])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _scratch(options: JournalOptions) -> Iterator[Path]:
    """A run directory with nothing but a journal, in shared memory, removed afterwards."""
    try:
        path = Path(tempfile.mkdtemp(prefix="tapewire-bench-", dir=options.live_dir))
    except OSError as error:
        raise TapewireError(f"{options.live_dir}: cannot make a directory there: {error.strerror}") from error
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _append(options: JournalOptions, helper_cpus: list[int]) -> tuple[dict[str, Any], dict[str, float]]:
    with _scratch(options) as path:
        cost = _native.bench_append(
            str(path / "journal"),
            options.chunks,
            options.chunk_operations,
            options.payload_bytes,
            options.page_bytes,
            helper_cpus,
        )
    ours = {
        "append_ns": float(np.median(cost["append_ns"])),
        "appended_frames": options.chunks * options.chunk_operations,
    }
    floor = {
        "append_ns": float(np.median(cost["floor_ns"])),
        "append_payload_only_ns": float(np.median(cost["floor_payload_only_ns"])),
    }
    return ours, floor


def _rolls(options: JournalOptions, helper_cpus: list[int], interval_ns: int) -> dict[str, Any]:
    with _scratch(options) as path:
        return _native.bench_rolls(
            str(path / "journal"),
            options.rolls_per_run,
            interval_ns,
            options.payload_bytes,
            options.page_bytes,
            helper_cpus,
        )


def _merge_rolls(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """All rolls of all runs; of all appends the median p50 and p99 over runs, and the largest."""
    rolls = sorted(roll for part in parts for roll in part["roll_ns"])
    frames = sum(part["frames"] for part in parts)
    return {
        "rolls": len(rolls),
        "roll_p50_ns": rolls[quantile_rank(len(rolls), 50, 100)],
        "roll_p99_ns": rolls[quantile_rank(len(rolls), 99, 100)],
        "roll_max_ns": rolls[-1],
        "append_p50_ns": float(np.median([part["append_p50_ns"] for part in parts])),
        "append_p99_ns": float(np.median([part["append_p99_ns"] for part in parts])),
        "append_max_ns": max(part["append_max_ns"] for part in parts),
        "frames": frames,
        "frames_per_s": round(frames / sum(part["elapsed_ns"] for part in parts) * 1e9),
        "page_not_ready": sum(part["roll_waits"] for part in parts),
        "late_appends": sum(part["late"] for part in parts),
    }


def _reads(options: JournalOptions, ours: dict[str, Any], floor: dict[str, float]) -> None:
    """The merged reads, native and from Python, of frames written for it; adds to `ours` and `floor`."""

    def median_ns(read: Callable[[], dict[str, int]]) -> float:
        return float(np.median([_checked(read(), options, seq_sum) for _ in range(_REPEATS)]))

    with _scratch(options) as path:
        seq_sum = _write(options, path, _READ_TYPE, payload_bytes(_READ_TYPE))
        where = (str(path / "journal"), options.streams)
        flat = median_ns(lambda: _native.bench_merge_floor(*where))
        floor["merged_read_ns"] = flat / options.frames
        floor["merged_read_frames_per_s"] = options.frames / flat * 1e9
        for key, verify in (("merged_read_ns", False), ("merged_read_verified_ns", True)):
            ours[key] = median_ns(partial(_native.bench_merged_read, *where, verify)) / options.frames
        reads: tuple[tuple[str, Callable[[Journal], dict[str, int]]], ...] = (
            ("read_batch_frames_per_s", _read_batches),
            ("read_batch_rows_frames_per_s", _read_rows),
            ("read_frames_per_s", _read_frames),
        )
        with Journal.open(path) as journal:
            for key, read in reads:
                ours[key] = options.frames / median_ns(partial(read, journal)) * 1e9
    with _scratch(options) as path:
        seq_sum = _write(options, path, FrameType.USER, options.payload_bytes)
        where = (str(path / "journal"), options.streams)
        floor["merged_read_large_ns"] = median_ns(lambda: _native.bench_merge_floor(*where)) / options.frames
        large = median_ns(lambda: _native.bench_merged_read(*where, False))
        ours["merged_read_large_ns"] = large / options.frames
    ours["read_frames"] = options.frames * _REPEATS * 6


def _write(options: JournalOptions, path: Path, type_: FrameType, payload: int) -> int:
    return _native.bench_write_streams(
        str(path / "journal"), options.streams, options.frames, int(type_), payload, options.page_bytes
    )


def _checked(cost: dict[str, int], options: JournalOptions, seq_sum: int) -> int:
    """Elapsed ns, once every frame was seen once."""
    if (cost["frames"], cost["seq_sum"]) != (options.frames, seq_sum):
        raise TapewireError(
            f"bench journal: read {cost['frames']} frames whose seqs add up to {cost['seq_sum']}, "
            f"written were {options.frames} with {seq_sum}"
        )
    return cost["elapsed_ns"]


def _read_batches(journal: Journal) -> dict[str, int]:
    frames = seq_sum = 0
    with journal.reader(verify=False) as reader:
        start = time.perf_counter_ns()
        for batch in reader.batches():
            frames += len(batch)
            seq_sum += int(batch.headers["seq"].sum())
        elapsed_ns = time.perf_counter_ns() - start
    return {"frames": frames, "seq_sum": seq_sum, "elapsed_ns": elapsed_ns}


def _read_rows(journal: Journal) -> dict[str, int]:
    """The same with payloads as structured arrays; the first payload field counts each stream's frames."""
    frames = seq_sum = 0
    with journal.reader(verify=False) as reader:
        start = time.perf_counter_ns()
        for batch in reader.batches():
            rows = batch.rows(_READ_TYPE)
            frames += len(rows)
            seq_sum += int(rows["order_id"].sum())
        elapsed_ns = time.perf_counter_ns() - start
    return {"frames": frames, "seq_sum": seq_sum, "elapsed_ns": elapsed_ns}


def _read_frames(journal: Journal) -> dict[str, int]:
    frames = seq_sum = 0
    with journal.reader(verify=False) as reader:
        start = time.perf_counter_ns()
        for frame in reader:
            frames += 1
            seq_sum += frame.seq
        elapsed_ns = time.perf_counter_ns() - start
    return {"frames": frames, "seq_sum": seq_sum, "elapsed_ns": elapsed_ns}
