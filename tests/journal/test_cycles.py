"""The join against a plain-Python reference: one dict per frame, one pass per rule."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapewire.journal.cycles import OVERFLOW_NS, STAGES, Cycles, CycleStatus, join_cycles
from tapewire.journal.errors import TapewireError
from tapewire.journal.format import header_dtype

DEPTH, TRADE, ORDER, REPORT, FILL, TIMER = 1, 3, 4, 5, 6, 7
MD, MD2, TD, STRATEGY = 1, 2, 3, 4


def headers_of(frames: list[dict[str, int]]) -> np.ndarray[Any, Any]:
    array = np.zeros(len(frames), dtype=header_dtype())
    for row, frame in zip(array, frames, strict=True):
        for field, value in frame.items():
            row[field] = value
    return array


def frame(
    kind: int, stream: int, seq: int, time: int, root: tuple[int, int, int] = (0, 0, 0), **more: int
) -> dict[str, int]:
    return {
        "type": kind, "stream_id": stream, "seq": seq, "gen_time": time,
        "root_stream": root[0], "root_seq": root[1], "root_type": root[2], **more,
    }  # fmt: skip


def reference(frames: list[dict[str, int]], warmup: int) -> dict[str, Any]:
    """The classes of `Accounts` and every matched cycle, the slow way."""
    depths = {(f["stream_id"], f["seq"]): f["gen_time"] for f in frames if f["type"] == DEPTH}
    by_time = sorted(frames, key=lambda f: (f["gen_time"], f["stream_id"], f["seq"]))
    order_streams = {f["stream_id"] for f in frames if f["type"] == ORDER}
    count: Counter[str] = Counter(depths=len(depths))
    first_order: dict[tuple[int, int], dict[str, int]] = {}
    for f in by_time:
        if f["type"] != ORDER:
            continue
        count["orders"] += 1
        root = (f["root_stream"], f["root_seq"])
        if f["root_type"] != DEPTH:
            count["orders_other_root"] += 1
            continue
        if root not in depths:
            count["orders_root_missing"] += 1
        elif root in first_order:
            count["orders_duplicate"] += 1
        first_order.setdefault(root, f)
    count["depths_with_order"] = sum(root in depths for root in first_order)
    first_report: dict[tuple[int, int], dict[str, int]] = {}
    for f in by_time:
        if f["type"] not in (REPORT, FILL):
            continue
        count["reports"] += 1
        root = (f["root_stream"], f["root_seq"])
        if f["stream_id"] in order_streams:
            count["reports_local_refusal"] += 1
        elif f["root_type"] != DEPTH:
            count["reports_other_root"] += 1
        elif (f["cause_stream"], f["cause_seq"]) == root:
            count["reports_market_caused"] += 1
        elif root not in first_order:
            count["reports_without_order"] += 1
        elif root in first_report:
            count["reports_duplicate"] += 1
        else:
            first_report[root] = f
            count["reports_root_missing"] += root not in depths
    cycles = []
    for root, order in first_order.items():
        if root not in depths:
            continue
        if root not in first_report:
            count["orders_without_report"] += 1
            continue
        cycles.append(
            (depths[root], root, order["gen_time"], first_report[root]["gen_time"], order, first_report[root])
        )
    cycles.sort(key=lambda c: (c[0], c[1]))
    matched = []
    left = warmup
    for depth_ns, root, order_ns, report_ns, order, report in cycles:
        stages = (order_ns - depth_ns, report_ns - order_ns, report_ns - depth_ns)
        if min(stages) < 0:
            status = CycleStatus.NEGATIVE
        elif max(stages) > OVERFLOW_NS:
            status = CycleStatus.OVERFLOW
        elif left > 0:
            left -= 1
            status = CycleStatus.WARMUP
        else:
            status = CycleStatus.KEPT
        count[status.name.lower()] += 1
        order_id, report_id = ((f["stream_id"], f["seq"]) for f in (order, report))
        matched.append((root, order_id, report_id, depth_ns, order_ns, report_ns, status))
    return {"count": count, "cycles": matched}


def cycles_as_tuples(cycles: Cycles) -> list[tuple[Any, ...]]:
    def pairs(a: Any, b: Any) -> list[tuple[int, int]]:
        return list(zip(a.tolist(), b.tolist(), strict=True))

    return list(
        zip(
            pairs(cycles.root_stream, cycles.root_seq),
            pairs(cycles.order_stream, cycles.order_seq),
            pairs(cycles.report_stream, cycles.report_seq),
            cycles.depth_ns.tolist(),
            cycles.order_ns.tolist(),
            cycles.report_ns.tolist(),
            cycles.status.tolist(),
            strict=True,
        )
    )


@st.composite
def journals(draw: st.DrawFn) -> list[dict[str, int]]:
    """Frames of up to three writers whose ids collide often: every odd case of the join is likely."""
    seqs = {stream: draw(st.integers(0, 12)) for stream in (MD, MD2)}
    frames = []
    times = st.one_of(st.integers(0, 60), st.sampled_from([OVERFLOW_NS + 30, 2 * OVERFLOW_NS, 2**63 - 1]))
    for stream, last in seqs.items():
        kinds = st.sampled_from([DEPTH, DEPTH, DEPTH, TRADE])
        frames += [frame(draw(kinds), stream, seq, draw(times)) for seq in range(1, last + 1)]
    roots = st.tuples(
        st.sampled_from([MD, MD, MD2]),
        st.integers(1, 13),
        st.sampled_from([DEPTH] * 6 + [0, TRADE, TIMER, 12]),
    )
    writers = [(ORDER, STRATEGY), (REPORT, TD), (FILL, TD), (REPORT, 5), (ORDER, 6), (REPORT, STRATEGY)]
    next_seq: Counter[int] = Counter()
    for _ in range(draw(st.integers(0, 40))):
        kind, stream = draw(st.sampled_from(writers))
        next_seq[stream] += 1
        root = draw(roots)
        cause = (
            draw(st.sampled_from([(STRATEGY, 1), (root[0], root[1])]))
            if kind != ORDER
            else (root[0], root[1])
        )
        frames.append(
            frame(
                kind, stream, next_seq[stream], draw(times), root, cause_stream=cause[0], cause_seq=cause[1]
            )
        )
    return draw(st.permutations(frames))


@settings(max_examples=400, deadline=None)
@given(frames=journals(), warmup=st.integers(0, 5))
def test_join_equals_the_reference(frames: list[dict[str, int]], warmup: int) -> None:
    cycles = join_cycles(headers_of(frames), warmup=warmup)
    expected = reference(frames, warmup)
    # A strategy's timer orders are never in a cycle, and each count is what one pass per frame finds.
    for name in cycles.accounts.__struct_fields__:
        value = getattr(cycles.accounts, name)
        if isinstance(value, int) and name not in ("depths_without_order", "cycles"):
            assert value == expected["count"][name], name
    assert cycles_as_tuples(cycles) == expected["cycles"]
    kept = [c for c in expected["cycles"] if c[-1] == CycleStatus.KEPT]
    assert cycles.stage_ns("depth_to_order").tolist() == [c[4] - c[3] for c in kept]
    assert cycles.stage_ns("order_to_report").tolist() == [c[5] - c[4] for c in kept]
    assert cycles.stage_ns("depth_to_report").tolist() == [c[5] - c[3] for c in kept]


def clean_run(cycles: int, *, every: int = 5) -> list[dict[str, int]]:
    frames = []
    for i in range(1, cycles + 1):
        frames += [frame(DEPTH, MD, (i - 1) * every + j + 1, i * 1000 + j) for j in range(every)]
        root = (MD, i * every, DEPTH)
        start = i * 1000 + every - 1
        frames.append(frame(ORDER, STRATEGY, i, start + 10, root, cause_stream=MD, cause_seq=i * every))
        frames.append(frame(REPORT, TD, 2 * i - 1, start + 30, root, cause_stream=STRATEGY, cause_seq=i))
        frames.append(frame(FILL, TD, 2 * i, start + 31, root, cause_stream=STRATEGY, cause_seq=i))
    return frames


def test_clean_run_keeps_all_but_the_warm_up() -> None:
    cycles = join_cycles(headers_of(clean_run(50)), warmup=8)
    accounts = cycles.accounts
    assert (accounts.orders, accounts.cycles, accounts.warmup, accounts.kept) == (50, 50, 8, 42)
    assert accounts.reports_duplicate == 50  # the fill after each report
    assert accounts.depths_without_order == 200
    assert cycles.root_seq[cycles.status == CycleStatus.KEPT].tolist() == [i * 5 for i in range(9, 51)]
    assert set(cycles.stage_ns("depth_to_report").tolist()) == {30}
    assert set(cycles.stage_ns("order_to_report").tolist()) == {20}


def test_other_roots_are_named_by_type() -> None:
    frames = clean_run(2)
    for seq, root_type in enumerate((TIMER, TIMER, 0, TRADE), start=10):
        frames.append(frame(ORDER, STRATEGY, seq, 9000 + seq, (MD, 1, root_type)))
    accounts = join_cycles(headers_of(frames), warmup=0).accounts
    assert accounts.orders_other_root_by_type == {"none": 1, "timer": 2, "trade": 1}
    assert accounts.rejected()["other_root"] == 4
    assert accounts.kept == 2


def test_a_fill_of_a_resting_order_is_no_answer() -> None:
    """The venue fills an older order on the very Depth that makes the strategy send a new one."""
    frames = clean_run(1)
    frames.append(frame(FILL, TD, 9, 1004 + 2, (MD, 5, DEPTH), cause_stream=MD, cause_seq=5))
    cycles = join_cycles(headers_of(frames), warmup=0)
    assert cycles.accounts.reports_market_caused == 1
    assert cycles.accounts.negative == 0
    assert cycles.report_seq.tolist() == [1]


def test_a_strategy_that_only_refuses_is_known_by_its_role() -> None:
    frames = [
        frame(DEPTH, MD, 1, 5),
        frame(REPORT, STRATEGY, 1, 6, (MD, 1, DEPTH), cause_stream=MD, cause_seq=1),
    ]
    assert join_cycles(headers_of(frames)).accounts.reports_market_caused == 1
    known = join_cycles(headers_of(frames), strategy_streams=[STRATEGY]).accounts
    assert known.reports_local_refusal == 1


def test_empty_journal() -> None:
    cycles = join_cycles(headers_of([]))
    assert cycles.accounts.kept == 0
    assert all(len(cycles.stage_ns(stage)) == 0 for stage in STAGES)


def test_negative_counts_per_stage() -> None:
    root = (MD, 1, DEPTH)
    frames = [frame(DEPTH, MD, 1, 100), frame(ORDER, STRATEGY, 1, 90, root), frame(REPORT, TD, 1, 120, root)]
    accounts = join_cycles(headers_of(frames), warmup=0).accounts
    assert accounts.negative_by_stage == {"depth_to_order": 1, "order_to_report": 0, "depth_to_report": 0}
    assert accounts.negative == 1


def test_a_seq_beyond_48_bits_is_refused() -> None:
    with pytest.raises(TapewireError, match="more than a stream can hold"):
        join_cycles(headers_of([frame(DEPTH, MD, 1 << 50, 5)]))
