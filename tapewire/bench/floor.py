"""The relay floor as three pinned processes: market data -> strategy -> trade gateway, nothing else.

`run_floor` starts `python -m tapewire.bench.floor ROLE ...` three times, as the runtime starts its own
processes, and reads the stamps out of the shared file afterwards. The relay itself is native and frozen.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from .. import _native
from ..journal.errors import TapewireError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ints: TypeAlias = npt.NDArray[np.int64]

__all__ = ["FloorPlan", "FloorSample", "run_floor"]

# Started in the order in which data flows backwards, so that the source comes last.
ROLES = ("td", "strategy", "md")
_NUMBERS = itertools.count(1)


class FloorPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the floor. `cpus` maps each role (md, strategy, td) to its CPUs; empty is unpinned.

    `linger_ns` 0 is the floor proper; otherwise its publisher yields that long before it sleeps.
    """

    events: int
    every: int
    interval_ns: int
    poisson: bool
    seed: int
    cpus: dict[str, tuple[int, ...]]
    linger_ns: int = 0


class FloorSample:
    """What one run of the floor took: latencies per stage of each order, and how long the whole took, in ns.

    `depth_ns` are the stamps of all depths; `order_ns` and `report_ns` those of the orders and reports.
    """

    def __init__(self, depth_ns: Ints, order_ns: Ints, report_ns: Ints, every: int) -> None:
        asked_ns = depth_ns[every - 1 :: every]
        self.depth_to_order_ns = order_ns - asked_ns
        self.order_to_report_ns = report_ns - order_ns
        self.depth_to_report_ns = report_ns - asked_ns
        self.publish_ns = int(depth_ns[-1] - depth_ns[0])
        self.pipeline_ns = int(max(depth_ns[-1], report_ns[-1] if len(report_ns) else 0) - depth_ns[0])


def run_floor(plan: FloorPlan, directory: Path = Path("/dev/shm")) -> FloorSample:
    """Run the floor once in shared memory and return its latencies.

    Raises TapewireError when a role fails or when not every depth, order and report arrived in order.
    """
    path = directory / f"tapewire-floor-{os.getpid()}-{next(_NUMBERS)}"
    children: list[subprocess.Popen[str]] = []
    try:
        _native.floor_create(str(path), plan.events, plan.every)
        children = [_spawn(role, path, plan) for role in ROLES]
        longest_s = plan.events * plan.interval_ns * 1e-9 * (2 if plan.poisson else 1) + 60
        for role, child in zip(ROLES, children, strict=True):
            _, errors = child.communicate(timeout=longest_s)
            if child.returncode != 0:
                last = (errors.strip().splitlines() or ["no message"])[-1]
                raise TapewireError(f"relay floor: {role} ended with status {child.returncode}: {last}")
        return _sample(path, plan)
    except subprocess.TimeoutExpired:
        raise TapewireError("relay floor: it did not end in time; is this machine overloaded?") from None
    except RuntimeError as error:
        raise TapewireError(str(error)) from error
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.wait()
        path.unlink(missing_ok=True)


def _spawn(role: str, path: Path, plan: FloorPlan) -> subprocess.Popen[str]:
    numbers = (plan.events, plan.every, plan.interval_ns, int(plan.poisson), plan.seed, plan.linger_ns)
    pins = ",".join(map(str, plan.cpus.get(role, ()))) or "any"
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "tapewire.bench.floor", role, str(path), *map(str, numbers), pins],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _sample(path: Path, plan: FloorPlan) -> FloorSample:
    import numpy as np

    layout = _native.floor_layout(plan.events, plan.every)
    data = path.read_bytes()

    def column(what: str, count: int, at: int) -> Ints:
        if count == 0:
            return np.empty(0, np.dtype("<i8"))
        shape, stride = (count,), (layout[f"{what}_bytes"],)
        return np.ndarray(shape, np.dtype("<i8"), data, layout[f"{what}_offset"] + at, stride).copy()

    counts = (("depth", plan.events), ("order", layout["orders"]), ("report", layout["orders"]))
    for what, count in counts:
        arrived = column(what, count, 8)
        if not bool((arrived == np.arange(1, count + 1)).all()):
            missing = int((arrived == 0).sum())
            raise TapewireError(f"relay floor: {missing} of {count} {what}s did not arrive, or out of order")
    stamps = {what: column(what, count, 16) for what, count in counts}
    return FloorSample(stamps["depth"], stamps["order"], stamps["report"], plan.every)


def run_role(arguments: Sequence[str]) -> None:
    """Be one role: ROLE PATH EVENTS EVERY INTERVAL_NS POISSON SEED LINGER_NS CPUS."""
    role, path, events, every, interval_ns, poisson, seed, linger_ns, cpus = arguments
    if cpus != "any":
        os.sched_setaffinity(0, [int(cpu) for cpu in cpus.split(",")])
    relay = {"md": _native.floor_md, "strategy": _native.floor_strategy, "td": _native.floor_td}[role]
    relay(path, int(events), int(every), int(interval_ns), poisson == "1", int(seed), int(linger_ns))


if __name__ == "__main__":
    run_role(sys.argv[1:])
