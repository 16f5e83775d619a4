"""The live picture of a run, drawn from its counters file; it disturbs nobody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..runtime.live import CountersView, ProcessState, is_stalled

if TYPE_CHECKING:
    from rich.table import Table

    from ..runtime.config import StreamInfo

__all__ = ["backlog_frames", "counters_table", "latency_text", "live_table"]

WIDE = 100
_COLUMNS = ("events", "sent", "orders", "reports", "fills", "rejected")


def backlog_frames(counters: CountersView, slot: int, streams: Sequence[StreamInfo]) -> int:
    """Frames that the streams this process reads hold and that it has not consumed yet."""
    slots = {name: number for number, name in enumerate(counters.names)}
    producer = {stream.id: slots[stream.process] for stream in streams if stream.kind == "data"}
    consumed: dict[int, int] = counters.block(slot).snapshot()["consumed"]
    return sum(
        max(0, counters.block(producer[stream]).get("last_seq") - seq)
        for stream, seq in consumed.items()
        if stream in producer
    )


def latency_text(ns: int) -> str:
    """`850 ns`, `12.3 µs`, `4.56 ms`; empty for none."""
    if ns <= 0:
        return ""
    if ns < 1_000:
        return f"{ns} ns"
    return f"{ns / 1e3:.1f} µs" if ns < 1_000_000 else f"{ns / 1e6:.2f} ms"


def live_table(
    title: str, counters: CountersView, streams: Sequence[StreamInfo], *, width: int = WIDE
) -> Table:
    """One row per process: what it has done, what waits for it, how fast it was last. On a terminal narrower
    than `WIDE` columns it has narrower gaps and no rejections."""
    narrow = width < WIDE
    shown = _COLUMNS[:-1] if narrow else _COLUMNS
    table = _table(title, ("process", "state", *shown, "backlog", "latency" if narrow else "last latency"))
    if narrow:
        table.padding = (0, 1, 0, 0)
    for slot, name in enumerate(counters.names):
        block = counters.block(slot)
        state = "stalled" if is_stalled(block) else _state_text(block.get("state"))
        table.add_row(
            name,
            state,
            *_counts(block.snapshot())[: len(shown)],
            f"{backlog_frames(counters, slot, streams):,}",
            latency_text(block.get("latency_last_ns")),
        )
    return table


def counters_table(processes: dict[str, dict[str, Any]]) -> Table:
    """The final counters of each process."""
    table = _table("", ("process", *_COLUMNS, "refused", "dropped", "errors", "max backlog", "page rolls"))
    for name, counters in processes.items():
        keys = ("refused", "dropped", "errors", "max_backlog", "page_rolls")
        rest = (f"{counters[key]:,}" for key in keys)
        table.add_row(name, *_counts(counters), *rest)
    return table


def _counts(counters: dict[str, Any]) -> tuple[str, ...]:
    keys = ("frames_in", "frames_out", "orders", "reports", "fills", "rejects")
    return tuple(f"{counters[key]:,}" for key in keys)


def _state_text(value: int) -> str:
    try:
        return ProcessState(value).name.lower()
    except ValueError:
        return f"state {value}"


def _table(title: str, columns: tuple[str, ...]) -> Table:
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="left" if column in ("process", "state") else "right", no_wrap=True)
    return table
