"""Latency of one run, from its journal alone: finished, running, crashed, or copied from another host.

`analyze` joins frame headers by root id (cycles.py) and summarises the three stages. Percentiles of stages
are marginal: the p90 of two stages need not come from the same cycles and do not add up.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from .. import _native
from .accounts import Accounts
from .cycles import OVERFLOW_NS, STAGES, Cycles, CycleStatus, join_cycles
from .distribution import Distribution, Histogram, distribution, histogram, medians
from .errors import TapewireError
from .format import PAGE_HEADER_BYTES
from .journal import Journal

__all__ = [
    "Analysis",
    "RunAnalysis",
    "analyze",
    "analyze_cycles",
    "fingerprint",
    "load_or_analyze",
    "save",
    "write_csv",
]

ANALYSIS_FILE = "analysis.json"
ANALYSIS_FORMAT = 1
DEFAULT_WARMUP = 100


class RunAnalysis(msgspec.Struct, frozen=True, kw_only=True):
    """What one run achieved. `stages` maps each of STAGES to its distribution, None without a kept cycle."""

    run: str
    state: str
    topology: str
    latency_profile: str
    wait: dict[str, str]
    cpu: dict[str, Any]
    warmup_cycles: int
    input_orders: int
    kept: int
    accounts: Accounts
    stages: dict[str, Distribution | None]


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """One analysed run under the keys every benchmark of tapewire publishes, as saved in analysis.json."""

    bench: str
    version: str
    environment: dict[str, Any]
    config: dict[str, Any]
    runs: list[RunAnalysis]
    results: dict[str, Any]
    floor: dict[str, Any]
    ratio: dict[str, Any]
    rejected: dict[str, int]
    histograms: dict[str, Histogram | None]
    fingerprint: str
    format: int = ANALYSIS_FORMAT


def tapewire_version() -> str:
    """Version of the installed tapewire."""
    return importlib.metadata.version("tapewire")


def measured_config(warmup: int) -> dict[str, Any]:
    """The rules a figure was taken by, as they stand in the JSON of every analysis."""
    return {
        "warmup_cycles": warmup,
        "overflow_ns": OVERFLOW_NS,
        "quantiles": "nearest-rank on integer nanoseconds",
        "stages": "marginal",
    }


def analyze_cycles(
    cycles: Cycles, manifest: Mapping[str, Any], *, run: str, warmup: int, mark: str
) -> Analysis:
    """Summarise joined cycles; `manifest` may be empty, what it does not tell is "unknown"."""
    latencies = {stage: cycles.stage_ns(stage) for stage in STAGES}
    stages = {stage: distribution(latency) for stage, latency in latencies.items()}
    processes: Mapping[str, Mapping[str, Any]] = manifest.get("processes") or {}
    config: Mapping[str, Any] = manifest.get("config") or {}
    result = RunAnalysis(
        run=run,
        state=str(manifest.get("state", "unknown")),
        topology=str(manifest.get("topology", "unknown")),
        latency_profile=str((config.get("run") or {}).get("latency", "unknown")),
        wait={name: str(process.get("wait", "unknown")) for name, process in processes.items()},
        cpu={name: process.get("cpu", "unknown") for name, process in processes.items()},
        warmup_cycles=warmup,
        input_orders=cycles.accounts.orders,
        kept=cycles.accounts.kept,
        accounts=cycles.accounts,
        stages=stages,
    )
    return Analysis(
        bench="analyze",
        version=tapewire_version(),
        environment=dict(manifest.get("environment") or {}),
        config=measured_config(warmup),
        runs=[result],
        results={
            "input": result.input_orders,
            "kept": result.kept,
            **medians([stages["depth_to_report"]]),
            "stages": {stage: medians([summary]) for stage, summary in stages.items()},
        },
        floor={},
        ratio={},
        rejected=cycles.accounts.rejected(),
        histograms={stage: histogram(latency) for stage, latency in latencies.items()},
        fingerprint=mark,
    )


def join_journal(journal: Journal, *, warmup: int = DEFAULT_WARMUP) -> Cycles:
    """Cycles of an opened journal."""
    processes: Mapping[str, Mapping[str, Any]] = journal.manifest.get("processes") or {}
    strategies = [
        int(stream["id"])
        for stream in journal.manifest.get("streams") or ()
        if processes.get(stream["process"], {}).get("role") == "strategy"
    ]
    return join_cycles(journal.headers(), warmup=warmup, strategy_streams=strategies)


def analyze(run: str | Path, *, warmup: int = DEFAULT_WARMUP) -> tuple[Analysis, Cycles]:
    """Analyse a run (name, directory or "last") and save analysis.json when nothing writes to it any more.

    `warmup` valid cycles are left out at the start. Returns the summary and every matched cycle.
    Raises RunNotFound, NotAJournal, JournalCorrupt or JournalVersionUnsupported.
    """
    with Journal.open(run) as journal:
        mark = fingerprint(journal.run_dir)
        cycles = join_journal(journal, warmup=warmup)
        analysis = analyze_cycles(
            cycles, journal.manifest, run=journal.run_dir.name, warmup=warmup, mark=mark
        )
        if journal.live_dir is None:
            save(analysis, journal.run_dir)
    return analysis, cycles


def load_or_analyze(run: str | Path, *, warmup: int = DEFAULT_WARMUP) -> Analysis:
    """The saved analysis of a run when it was made from the same bytes by the same rules, else a new one."""
    with Journal.open(run) as journal:
        run_dir, is_live = journal.run_dir, journal.live_dir is not None
    if not is_live:
        try:
            saved = msgspec.json.decode((run_dir / ANALYSIS_FILE).read_bytes(), type=Analysis)
        except (OSError, msgspec.MsgspecError):
            pass  # none yet, or of another version: it is made anew
        else:
            same_rules = saved.format == ANALYSIS_FORMAT and saved.config == measured_config(warmup)
            if same_rules and saved.fingerprint == fingerprint(run_dir):
                return saved
    return analyze(run_dir, warmup=warmup)[0]


def save(analysis: Analysis, run_dir: Path) -> Path | None:
    """Write analysis.json atomically; None when the directory cannot be written (evidence kept read-only)."""
    path = run_dir / ANALYSIS_FILE
    partial = path.with_suffix(".partial")
    try:
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(analysis), indent=1))
        partial.replace(path)
    except OSError:
        return None
    return path


def fingerprint(run_dir: Path) -> str:
    """Digest of what the recorded journal holds: each page's name, size and header, and how far streams go.

    It does not depend on times or on the place, so a copied run keeps its fingerprint.
    """
    digest = hashlib.sha256()
    for stream in sorted((run_dir / "journal").iterdir()):
        pages = sorted(stream.glob("[0-9]*.page"))
        for page in pages:
            digest.update(f"{stream.name}/{page.name} {page.stat().st_size} ".encode())
            with page.open("rb") as file:
                digest.update(file.read(PAGE_HEADER_BYTES))
        watermark = stream / "watermark"
        if watermark.is_file():
            digest.update(watermark.read_bytes())
        elif pages:  # written here, not by a recorder
            digest.update(str(_native.scan_page(str(pages[-1]))["next_seq"]).encode())
    return digest.hexdigest()


def order_instruments(journal: Journal, cycles: Cycles) -> dict[tuple[int, int], int]:
    """Instrument id of each order input of `cycles`, by (stream id, seq)."""
    found: dict[tuple[int, int], int] = {}
    with journal.reader(types=["order_input"]) as reader:
        for batch in reader.batches():
            rows = batch.rows("order_input")
            keys = zip(rows["stream_id"].tolist(), rows["seq"].tolist(), strict=True)
            found.update(zip(keys, rows["instrument_id"].tolist(), strict=True))
    wanted = zip(cycles.order_stream.tolist(), cycles.order_seq.tolist(), strict=True)
    return {key: found[key] for key in wanted if key in found}


def write_csv(run: str | Path, cycles: Cycles, path: Path) -> int:
    """Write one line per matched cycle, the left-out ones included (column `status`); returns how many.

    Times and stages are nanoseconds (CLOCK_MONOTONIC of the run's host); streams are named.
    """
    with Journal.open(run) as journal:
        names = journal.stream_names
        symbols = {int(i["id"]): str(i["symbol"]) for i in journal.manifest.get("instruments") or []}
        instruments = order_instruments(journal, cycles)
    order_keys = zip(cycles.order_stream.tolist(), cycles.order_seq.tolist(), strict=True)
    instrument_ids = (instruments.get(key, 0) for key in order_keys)
    statuses = [status.name.lower() for status in CycleStatus]
    columns = {
        "instrument": [symbols.get(i, str(i)) for i in instrument_ids],
        "status": [statuses[i] for i in cycles.status.tolist()],
        "root_stream": [names.get(i, str(i)) for i in cycles.root_stream.tolist()],
        "root_seq": cycles.root_seq.tolist(),
        "order_stream": [names.get(i, str(i)) for i in cycles.order_stream.tolist()],
        "order_seq": cycles.order_seq.tolist(),
        "report_stream": [names.get(i, str(i)) for i in cycles.report_stream.tolist()],
        "report_seq": cycles.report_seq.tolist(),
        "depth_ns": cycles.depth_ns.tolist(),
        "order_ns": cycles.order_ns.tolist(),
        "report_ns": cycles.report_ns.tolist(),
        **{f"{stage}_ns": cycles.stage_ns(stage, kept_only=False).tolist() for stage in STAGES},
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
    except OSError as error:
        raise TapewireError(f"{path}: cannot write the cycles: {error.strerror}") from error
    return int(np.size(cycles.status))
