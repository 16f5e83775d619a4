"""The ledger of a run after the fact, from its journal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from ...journal import Journal, decode
from ..units import INT64_MAX
from .instruments import InstrumentTable, unknown_instrument
from .ledger import LEDGER_TYPES, Ledger
from .positions import show_position

__all__ = ["rebuild", "written_positions"]

BATCH_FRAMES: Final = 65_536


def rebuild(run_dir: str | Path, *, keep_done: int | None = 0) -> Ledger:
    """The ledger of a run from its journal alone, live pages included while it runs.

    Of a run that still writes, what it had written when this was called: everything up to that moment is
    there to be read, causes included, while what comes later could be seen without its cause, and has no end.

    Raises what `Journal.open` and its readers raise: `RunNotFound`, `JournalCorrupt` and their like.
    """
    journal = Journal.open(run_dir)
    ledger = Ledger(
        InstrumentTable.from_manifest(journal.manifest.get("instruments", ())), keep_done=keep_done
    )
    until_ns = INT64_MAX if journal.live_dir is None else time.monotonic_ns()
    with journal.reader(types=LEDGER_TYPES) as reader:
        for batch in reader.batches(BATCH_FRAMES):
            ledger.apply_batch(batch, until_ns)
            if batch.headers["gen_time"][-1] > until_ns:
                break
    return ledger


def written_positions(run_dir: str | Path) -> tuple[list[dict[str, Any]], int]:
    """The last Position frame of each position, as of `Position.as_dict`, and when the newest was written.

    What the ledger process of a run said last: quick, however long the run is. The time is
    CLOCK_MONOTONIC ns, 0 when there is none yet.
    """
    journal = Journal.open(run_dir)
    table = InstrumentTable.from_manifest(journal.manifest.get("instruments", ()))
    processes = journal.manifest.get("processes", {})
    streams = [
        stream["name"]
        for stream in journal.manifest.get("streams", ())
        if stream["kind"] == "data" and processes.get(stream["process"], {}).get("role") == "ledger"
    ]
    last: dict[tuple[int, int], dict[str, Any]] = {}
    newest = 0
    with journal.reader([name for name in streams if name in journal.streams], ["position"]) as reader:
        for frame in reader:
            values = decode(frame)
            last[values["strategy_stream"], values["instrument_id"]] = values
            newest = frame.gen_time
    shown = [
        show_position(values, table.by_id.get(instrument_id) or unknown_instrument(instrument_id))
        for (_, instrument_id), values in sorted(last.items())
    ]
    return shown, newest
