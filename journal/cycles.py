"""Depth -> order -> report cycles of a run, joined by root id from frame headers alone.

A cycle is a Depth frame, the first order input that names it as its root, and the first order report or
fill of a venue stream that names the same root. "First" is the smallest (gen_time, stream id, seq).
Every order input and every report falls into exactly one class of `Accounts`; `Accounts.check` proves it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .accounts import Accounts
from .errors import TapewireError
from .format import FrameType, type_name

__all__ = ["OVERFLOW_NS", "STAGES", "CycleStatus", "Cycles", "join_cycles"]

Headers: TypeAlias = npt.NDArray[np.void]
Ints: TypeAlias = npt.NDArray[np.int64]
Keys: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Statuses: TypeAlias = npt.NDArray[np.uint8]

# A latency above this (18 minutes) is a broken clock or a wrong id, not a latency.
OVERFLOW_NS = 1 << 40
STAGES = ("depth_to_order", "order_to_report", "depth_to_report")

_SEQ_BITS = 48


class CycleStatus(IntEnum):
    """What became of a matched cycle."""

    KEPT = 0
    WARMUP = 1
    NEGATIVE = 2
    OVERFLOW = 3


@dataclass(frozen=True)
class Cycles:
    """Matched cycles, one element each, in the order of their Depth. Times are CLOCK_MONOTONIC ns."""

    root_stream: Ints
    root_seq: Ints
    order_stream: Ints
    order_seq: Ints
    report_stream: Ints
    report_seq: Ints
    depth_ns: Ints
    order_ns: Ints
    report_ns: Ints
    status: Statuses  # CycleStatus
    accounts: Accounts

    def stage_ns(self, stage: str, *, kept_only: bool = True) -> Ints:
        """Latencies of one of STAGES in nanoseconds."""
        start = self.order_ns if stage == "order_to_report" else self.depth_ns
        end = self.order_ns if stage == "depth_to_order" else self.report_ns
        latency = end - start
        return latency[self.status == CycleStatus.KEPT] if kept_only else latency


@dataclass(frozen=True)
class _Frames:
    """The columns of one frame type that the join needs, contiguous."""

    stream: Ints
    seq: Ints
    time: Ints
    root: Keys
    root_type: npt.NDArray[np.uint16]

    def __getitem__(self, pick: npt.NDArray[Any] | slice) -> _Frames:
        return _Frames(
            self.stream[pick], self.seq[pick], self.time[pick], self.root[pick], self.root_type[pick]
        )

    def __len__(self) -> int:
        return len(self.seq)


def _keys(stream: npt.NDArray[Any], seq: npt.NDArray[Any]) -> Keys:
    if len(seq) and int(seq.max()) >> _SEQ_BITS:
        raise TapewireError(f"analysis: a frame names seq {int(seq.max())}, more than a stream can hold")
    return (stream.astype(np.uint64) << np.uint64(_SEQ_BITS)) | seq.astype(np.uint64)


def _frames(chosen: Headers) -> _Frames:
    return _Frames(
        stream=chosen["stream_id"].astype(np.int64),
        seq=chosen["seq"].astype(np.int64),
        time=chosen["gen_time"].astype(np.int64),
        root=_keys(chosen["root_stream"], chosen["root_seq"]),
        root_type=chosen["root_type"].astype(np.uint16),
    )


def _firsts(frames: _Frames) -> _Frames:
    """The first frame of each root, ascending by root."""
    if _in_merge_order(frames):  # as one stream is, and as a merged read delivers: one sort instead of four
        ordered = frames[np.argsort(frames.root, kind="stable")]
    else:
        ordered = frames[np.lexsort((frames.seq, frames.stream, frames.time, frames.root))]
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered.root[1:] != ordered.root[:-1]
    return ordered[first]


def _in_merge_order(frames: _Frames) -> bool:
    before, after = frames[slice(None, -1)], frames[slice(1, None)]
    by_seq = (after.stream == before.stream) & (after.seq > before.seq)
    tie = (after.time == before.time) & ((after.stream > before.stream) | by_seq)
    return bool(((after.time > before.time) | tie).all())


def _find(sorted_keys: Keys, wanted: Keys) -> tuple[npt.NDArray[np.intp], Mask]:
    """Position of each wanted key among unique ascending keys, and whether it is there."""
    if len(sorted_keys) == 0:
        return np.zeros(len(wanted), dtype=np.intp), np.zeros(len(wanted), dtype=np.bool_)
    at = np.minimum(np.searchsorted(sorted_keys, wanted), len(sorted_keys) - 1)
    return at, sorted_keys[at] == wanted


def _by_root_type(root_type: npt.NDArray[np.uint16]) -> dict[str, int]:
    values, counts = np.unique(root_type, return_counts=True)
    return {
        type_name(int(value)) if value else "none": int(count)
        for value, count in zip(values, counts, strict=True)
    }


def _after(later: Ints, earlier: Ints) -> tuple[Mask, Mask]:
    """(negative, overflowing) without trusting the subtraction, which may wrap."""
    negative = later < earlier
    difference = later - earlier
    return negative, ~negative & ((difference < 0) | (difference > OVERFLOW_NS))


def _depths(headers: Headers, kind: npt.NDArray[Any]) -> tuple[Keys, Ints]:
    """Key and gen_time of every Depth, ascending by key."""
    found = kind == FrameType.DEPTH
    key = _keys(headers["stream_id"][found], headers["seq"][found])
    time = headers["gen_time"][found].astype(np.int64)
    if len(key) > 1 and not bool((key[1:] > key[:-1]).all()):
        order = np.argsort(key, kind="stable")
        key, time = key[order], time[order]
    return key, time


def _first_orders(orders: _Frames, depth_key: Keys, count: dict[str, Any]) -> _Frames:
    """The first order input of each depth root, whether or not that Depth exists; counts the others."""
    rooted = orders.root_type == FrameType.DEPTH
    _, there = _find(depth_key, orders.root)
    first = _firsts(orders[rooted])
    _, first_there = _find(depth_key, first.root)
    with_order = int(first_there.sum())
    other = orders.root_type[~rooted]
    count.update(
        depths=len(depth_key),
        depths_with_order=with_order,
        depths_without_order=len(depth_key) - with_order,
        orders=len(orders),
        orders_other_root=len(other),
        orders_other_root_by_type=_by_root_type(other),
        orders_root_missing=int((rooted & ~there).sum()),
        orders_duplicate=int((rooted & there).sum()) - with_order,
    )
    return first


def _first_reports(
    reports: Headers, own_streams: npt.NDArray[Any], first: _Frames, count: dict[str, Any]
) -> _Frames:
    """The first venue answer of each root in `first`; counts the others."""
    own = np.isin(reports["stream_id"], own_streams)
    rooted = reports["root_type"] == FrameType.DEPTH
    # Dispatched by the Depth itself: a resting order was filled. It answers no order of that root.
    caused = (reports["cause_stream"] == reports["root_stream"]) & (
        reports["cause_seq"] == reports["root_seq"]
    )
    answers = _frames(reports[~own & rooted & ~caused])
    _, there = _find(first.root, answers.root)
    report = _firsts(answers[there])
    other = reports["root_type"][~own & ~rooted]
    count.update(
        reports=len(reports),
        reports_local_refusal=int(own.sum()),
        reports_other_root=len(other),
        reports_other_root_by_type=_by_root_type(other),
        reports_market_caused=int((~own & rooted & caused).sum()),
        reports_without_order=int((~there).sum()),
        reports_duplicate=int(there.sum()) - len(report),
    )
    return report


def _status(depth_ns: Ints, order_ns: Ints, report_ns: Ints, warmup: int, count: dict[str, Any]) -> Statuses:
    """Classify cycles that are in the order of their Depth."""
    first_negative, first_overflow = _after(order_ns, depth_ns)
    second_negative, second_overflow = _after(report_ns, order_ns)
    whole_negative, whole_overflow = _after(report_ns, depth_ns)
    negative = first_negative | second_negative
    overflow = ~negative & (first_overflow | second_overflow | whole_overflow)
    status = np.full(len(depth_ns), CycleStatus.KEPT, dtype=np.uint8)
    status[np.flatnonzero(~negative & ~overflow)[: max(warmup, 0)]] = CycleStatus.WARMUP
    status[negative] = CycleStatus.NEGATIVE
    status[overflow] = CycleStatus.OVERFLOW
    counted = np.bincount(status, minlength=len(CycleStatus))
    count.update({member.name.lower(): int(counted[member]) for member in CycleStatus})
    count["negative_by_stage"] = {
        "depth_to_order": int(first_negative.sum()),
        "order_to_report": int(second_negative.sum()),
        "depth_to_report": int(whole_negative.sum()),
    }
    return status


def join_cycles(headers: Headers, *, warmup: int = 100, strategy_streams: Collection[int] = ()) -> Cycles:
    """Join the headers of all streams (any order) into cycles.

    `warmup` is how many valid cycles are left out at the start. Reports in a stream that also holds order
    inputs, or in one of `strategy_streams`, are a strategy's own refusals and answer nothing.
    Raises TapewireError when a count does not add up.
    """
    count: dict[str, Any] = {}
    kind = headers["type"]
    depth_key, depth_time = _depths(headers, kind)
    orders = _frames(headers[kind == FrameType.ORDER_INPUT])
    first = _first_orders(orders, depth_key, count)
    own_streams = np.union1d(orders.stream, np.array(sorted(strategy_streams), dtype=np.int64))
    report = _first_reports(
        headers[(kind == FrameType.ORDER_REPORT) | (kind == FrameType.FILL)], own_streams, first, count
    )

    order = first[_find(first.root, report.root)[0]]
    at_depth, matched = _find(depth_key, report.root)
    count["reports_root_missing"] = int((~matched).sum())
    report, order, depth_ns = report[matched], order[matched], depth_time[at_depth[matched]]
    count["orders_without_report"] = count["depths_with_order"] - len(report)
    count["cycles"] = len(report)

    if bool((depth_ns[1:] < depth_ns[:-1]).any()):  # several feeds: by root is not by time
        by_depth = np.lexsort((report.root, depth_ns))
        report, order, depth_ns = report[by_depth], order[by_depth], depth_ns[by_depth]
    status = _status(depth_ns, order.time, report.time, warmup, count)
    accounts = Accounts(**count)
    accounts.check()
    return Cycles(
        root_stream=(report.root >> np.uint64(_SEQ_BITS)).astype(np.int64),
        root_seq=(report.root & np.uint64((1 << _SEQ_BITS) - 1)).astype(np.int64),
        order_stream=order.stream,
        order_seq=order.seq,
        report_stream=report.stream,
        report_seq=report.seq,
        depth_ns=depth_ns,
        order_ns=order.time,
        report_ns=report.time,
        status=status,
        accounts=accounts,
    )
