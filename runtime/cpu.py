"""Placement of the current process: CPUs, niceness, scheduling class, locked memory.

What was asked for and what is in force are two things: a container may refuse half of it. `apply` does
what it can and reports both.
"""

from __future__ import annotations

import ctypes
import os
import resource

import msgspec

from .effective import EffectiveProcess
from .errors import ConfigError
from .policies import SchedSpec

_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
_SCHED_CLASS = {
    "other": os.SCHED_OTHER,
    "batch": os.SCHED_BATCH,
    "idle": os.SCHED_IDLE,
    "fifo": os.SCHED_FIFO,
}
_SCHED_NAME = {number: name for name, number in _SCHED_CLASS.items()} | {os.SCHED_RR: "rr"}


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """What is in force for a process. `refused` has a line for each thing the system did not allow."""

    cpus: tuple[int, ...]
    sched: str
    nice: int
    locked_bytes: int
    refused: tuple[str, ...] = ()


def allowed_cpus() -> frozenset[int]:
    """The CPUs that this process may really use: the affinity mask, which a cpuset has narrowed already."""
    return frozenset(os.sched_getaffinity(0))


def current_placement(refused: tuple[str, ...] = ()) -> Placement:
    """What is in force for the calling process now, as the kernel tells it."""
    policy = os.sched_getscheduler(0)
    name = _SCHED_NAME.get(policy & ~os.SCHED_RESET_ON_FORK, f"policy {policy}")
    if name in ("fifo", "rr"):
        name = f"{name} {os.sched_getparam(0).sched_priority}"
    return Placement(
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        sched=name,
        nice=os.getpriority(os.PRIO_PROCESS, 0),
        locked_bytes=_locked_bytes(),
        refused=refused,
    )


def apply(process: EffectiveProcess) -> Placement:
    """Place the calling process as `process` says and report what is in force.

    Raises `ConfigError` where it cannot be pinned, since every latency then means something else. A
    refused niceness, scheduling class or memory lock is listed in `refused` and the process goes on.
    Call it before threads are started: they inherit it.
    """
    if process.cpus:
        pin(process.cpus, key=f"processes.{process.name}.cpu")
    refused = [
        problem
        for problem in (
            _set_nice(process.nice),
            _set_sched(process.sched),
            lock_memory() if process.mlock else None,
        )
        if problem is not None
    ]
    return current_placement(tuple(refused))


def pin(cpus: tuple[int, ...], *, key: str = "cpu") -> None:
    """Restrict the calling thread to `cpus`; raises `ConfigError` where the kernel refuses."""
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        allowed = ", ".join(map(str, sorted(allowed_cpus())))
        raise ConfigError(
            f"cannot pin to CPU {', '.join(map(str, cpus))}: {error.strerror}; allowed are {allowed}", key=key
        ) from error


def lock_memory() -> str | None:
    """Keep every page of this process in memory once it has been touched; None, or why it was refused.

    Locked on first touch, not at once: locking a mapping whole would fault in all pages of a journal
    at the moment a reader maps it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) == 0:
        return None
    reason = os.strerror(ctypes.get_errno())
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limit = "unlimited" if soft == resource.RLIM_INFINITY else f"{soft} bytes"
    return f"mlock: {reason} (RLIMIT_MEMLOCK is {limit})"


def _set_nice(nice: int) -> str | None:
    if nice == os.getpriority(os.PRIO_PROCESS, 0):
        return None
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    except OSError as error:
        return f"nice {nice}: {error.strerror}"
    return None


def _set_sched(spec: SchedSpec) -> str | None:
    wanted = _SCHED_CLASS[spec.policy]
    if wanted == os.sched_getscheduler(0) and spec.policy != "fifo":
        return None
    try:
        os.sched_setscheduler(0, wanted, os.sched_param(spec.priority))
    except OSError as error:
        return f"sched {spec}: {error.strerror}"
    return None


def _locked_bytes() -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("VmLck:"):
                return int(line.split()[1]) * 1024
    return 0
