"""Stopping the processes of a run in order, so that nobody loses what is on its way to him.

Sources stop first, then the strategies, the venues and the ledger: each finishes what it has received
before it leaves, and the next one is asked only then. Used by master, and by `tapewire stop` when there is
no master any more.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .config import STOP_ORDER
from .live import RunFlags, StopHow
from .watch import ProcessWatch, describe_exit

__all__ = ["StopTiming", "Stoppable", "stop_in_order"]


@dataclass(frozen=True)
class StopTiming:
    """Seconds. The grace starts anew while a process still works through its input."""

    grace_s: float = 5.0
    term_s: float = 2.0
    kill_s: float = 5.0
    poll_s: float = 0.25


@dataclass(eq=False)
class Stoppable:
    """One process of a run and its slot in the control file."""

    name: str
    role: str
    slot: int
    watch: ProcessWatch
    #: Signals it took beyond asking, for the report.
    forced: list[str] = field(default_factory=list)

    @property
    def stop_rank(self) -> int:
        """Its place in `STOP_ORDER`."""
        return STOP_ORDER.index(self.role) if self.role in STOP_ORDER else len(STOP_ORDER) - 1


async def stop_in_order(
    processes: Sequence[Stoppable],
    flags: RunFlags,
    frames_in: Callable[[int], int],
    say: Callable[[str], None],
    *,
    timing: StopTiming | None = None,
    hurry: asyncio.Event | None = None,
) -> list[str]:
    """Stop `processes`, those of one role at a time; returns a line for each that had to be forced.

    `frames_in(slot)` tells how much a process has read; while that grows it is working, not hanging.
    When `hurry` is set, nobody gets a grace any more.
    """
    timing = timing or StopTiming()
    hurry = hurry or asyncio.Event()
    for rank in range(len(STOP_ORDER)):
        alive = [p for p in processes if p.stop_rank == rank and p.watch.alive]
        for process in alive:
            flags.request_stop(process.slot, StopHow.DRAIN)
        await asyncio.gather(*(_stop_one(p, flags, frames_in, say, timing, hurry) for p in alive))
    return [
        f"process {p.name} did not stop when asked: {', then '.join(p.forced)}" for p in processes if p.forced
    ]


async def _stop_one(
    process: Stoppable,
    flags: RunFlags,
    frames_in: Callable[[int], int],
    say: Callable[[str], None],
    timing: StopTiming,
    hurry: asyncio.Event,
) -> None:
    if await _drained(process, frames_in, timing, hurry):
        return
    for number, patience_s in ((signal.SIGTERM, timing.term_s), (signal.SIGKILL, timing.kill_s)):
        process.forced.append(number.name)
        say(f"process {process.name} (pid {process.watch.pid}) still runs: {number.name}")
        flags.request_stop(process.slot, StopHow.NOW)
        process.watch.send_signal(number)
        if await process.watch.wait(patience_s):
            say(f"process {process.name} {describe_exit(process.watch.exit_code)}")
            return
    process.forced.append("and it is still there")


async def _drained(
    process: Stoppable, frames_in: Callable[[int], int], timing: StopTiming, hurry: asyncio.Event
) -> bool:
    """Wait until it has left; False when it has not moved for the grace period, or we are in a hurry."""
    loop = asyncio.get_running_loop()
    seen = frames_in(process.slot)
    deadline = loop.time() + timing.grace_s
    while not hurry.is_set():
        if await process.watch.wait(min(timing.poll_s, max(0.0, deadline - loop.time()))):
            return True
        now = frames_in(process.slot)
        if now != seen:
            seen, deadline = now, loop.time() + timing.grace_s
        elif loop.time() >= deadline:
            return False
    return not process.watch.alive
