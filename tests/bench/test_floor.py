"""The relay floor: three processes, and the proof that everything was relayed. No times are asserted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from tapewire import _native
from tapewire.bench.floor import FloorPlan, run_floor, run_role
from tapewire.bench.latency import LatencyOptions, floor_plan, summarise_floor
from tapewire.journal.errors import TapewireError

PLAN = FloorPlan(events=203, every=5, interval_ns=50_000, poisson=False, seed=1, cpus={})


@pytest.mark.parametrize(("poisson", "linger_ns"), [(False, 0), (True, 0), (False, 5000)])
def test_every_order_is_relayed(tmp_path: Path, poisson: bool, linger_ns: int) -> None:
    sample = run_floor(msgspec.structs.replace(PLAN, poisson=poisson, linger_ns=linger_ns), tmp_path)
    assert len(sample.depth_to_report_ns) == 40
    assert bool((sample.depth_to_order_ns > 0).all())
    assert bool((sample.order_to_report_ns > 0).all())
    assert bool((sample.depth_to_order_ns + sample.order_to_report_ns == sample.depth_to_report_ns).all())
    assert list(tmp_path.iterdir()) == []
    summary = summarise_floor(sample, 10)
    assert (summary.orders, summary.warmup, summary.kept) == (40, 10, 30)


def test_unpaced_and_with_fewer_events_than_an_order_needs(tmp_path: Path) -> None:
    assert len(run_floor(msgspec.structs.replace(PLAN, interval_ns=0), tmp_path).depth_to_report_ns) == 40
    assert len(run_floor(msgspec.structs.replace(PLAN, events=3), tmp_path).depth_to_report_ns) == 0


def test_a_role_that_fails_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    nowhere = {"td": (1023,)}
    with pytest.raises(TapewireError, match="relay floor: td ended with status 1"):
        run_floor(msgspec.structs.replace(PLAN, cpus=nowhere), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_room_for_the_file() -> None:
    with pytest.raises(TapewireError, match="relay floor: cannot create /nowhere/"):
        run_floor(PLAN, Path("/nowhere"))


def test_a_file_of_another_plan_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "relay"
    _native.floor_create(str(path), 100, 5)
    with pytest.raises(RuntimeError, match="made for another plan"):
        run_role(["md", str(path), "101", "5", "1000", "0", "1", "0", "any"])


def test_frames_have_the_sizes_of_the_journal() -> None:
    from tapewire.journal.format import HEADER_BYTES, payload_bytes

    layout = _native.floor_layout(100, 5)
    for key, type_ in (("depth", "depth"), ("order", "order_input"), ("report", "order_report")):
        assert layout[f"{key}_bytes"] == HEADER_BYTES + payload_bytes(type_)


def test_the_plan_follows_the_topology() -> None:
    options = LatencyOptions(
        events=321, interval_us=77, arrivals="poisson", overrides=('processes.strategy.cpu="any"',)
    )
    plan = floor_plan(options.topology())
    assert (plan.events, plan.interval_ns, plan.every, plan.poisson) == (321, 77_000, 5, True)
    assert plan.cpus["strategy"] == ()
    assert np.array_equal(sorted(plan.cpus), ["md", "strategy", "td"])
