"""The live files of a run as the control side sees them: the control file and the counters.

The native classes in `tapewire._native` satisfy these protocols; tests use their own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Protocol

__all__ = [
    "ERROR_PREFIX",
    "CounterBlock",
    "CountersView",
    "ProcessState",
    "RunFlags",
    "StopHow",
    "heartbeat_age_ns",
    "is_stalled",
]

STALL_NS = 2_000_000_000

#: A process that fails writes its reason as a line with this prefix, the last one of its log.
ERROR_PREFIX = "error: "


class ProcessState(IntEnum):
    """Counter `state` of a process (native/ipc/counters.hpp)."""

    EMPTY = 0
    STARTING = 1
    READY = 2
    RUNNING = 3
    STOPPING = 4
    DONE = 5
    FAILED = 6


class StopHow(IntEnum):
    """How a process shall stop (native/ipc/control.hpp): finish what has arrived, or leave at once."""

    NONE = 0
    DRAIN = 1
    NOW = 2


class RunFlags(Protocol):
    """What the control side sets in the control file; a slot is a process's place in the topology, from 0."""

    def request_stop(self, slot: int, how: int, /) -> None:
        """Ask the process in `slot` to stop (`StopHow`)."""

    def mark_failed(self, slot: int, failed: bool, /) -> None:
        """Tell the others that it died: venues cancel a strategy's orders, lockstep waits for it no more."""

    def clear_waits(self, slot: int, /) -> None:
        """Forget the waits of a process that died while it waited."""


class CounterBlock(Protocol):
    """The counters of one process; see native/ipc/counters.hpp for the names and units."""

    def get(self, name: str, /) -> int:
        """One counter."""

    def snapshot(self) -> dict[str, Any]:
        """Every counter, and `consumed`: the last seq consumed of each stream id."""


class CountersView(Protocol):
    """The counters of a run; block i belongs to process `names[i]`, in slot i."""

    @property
    def names(self) -> Sequence[str]:
        """Process names in slot order."""

    def block(self, slot: int, /) -> CounterBlock:
        """The counters of one process."""


def heartbeat_age_ns(block: CounterBlock, now_ns: int | None = None) -> int | None:
    """Nanoseconds since the process's last heartbeat on the monotonic clock; None before the first."""
    beat = block.get("heartbeat_ns")
    if beat == 0:
        return None
    return max(0, (time.monotonic_ns() if now_ns is None else now_ns) - beat)


def is_stalled(block: CounterBlock, now_ns: int | None = None) -> bool:
    """Whether a running process has given no sign of life for 2 s. It may still recover: nobody kills it."""
    if block.get("state") not in (ProcessState.RUNNING, ProcessState.STOPPING):
        return False
    age = heartbeat_age_ns(block, now_ns)
    return age is not None and age > STALL_NS
