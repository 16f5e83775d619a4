"""Facts about this host that belong to every result, the boot and its clocks, and who is alive.

A fact that cannot be read is "unknown", never left out: a result without its governor looks like one
taken under any governor.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

UNKNOWN = "unknown"
_CPU = Path("/sys/devices/system/cpu")
_DEPENDENCIES = ("numpy", "msgspec", "pyzmq", "uvloop", "click")


class ClockAnchor(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of both clocks, in ns; `bracket_ns` bounds how far apart in time they were taken."""

    monotonic_ns: int
    realtime_ns: int
    bracket_ns: int = 0

    @property
    def offset_ns(self) -> int:
        """realtime minus monotonic: add it to a frame's gen_time to get UTC."""
        return self.realtime_ns - self.monotonic_ns

    def to_realtime(self, monotonic_ns: int) -> int:
        """UTC ns since 1970 of a CLOCK_MONOTONIC time of this boot."""
        return monotonic_ns + self.offset_ns

    def to_monotonic(self, realtime_ns: int) -> int:
        """The inverse of `to_realtime`."""
        return realtime_ns - self.offset_ns


def clock_anchor(tries: int = 64) -> ClockAnchor:
    """A pair of clock readings, the one of `tries` with the tightest bracket."""
    best: ClockAnchor | None = None
    for _ in range(tries):
        before = time.monotonic_ns()
        realtime = time.time_ns()
        after = time.monotonic_ns()
        if best is None or after - before < best.bracket_ns:
            best = ClockAnchor(
                monotonic_ns=before + (after - before) // 2, realtime_ns=realtime, bracket_ns=after - before
            )
    assert best is not None
    return best


def boot_id() -> str:
    """The kernel's id of this boot, or "unknown"."""
    return _read("/proc/sys/kernel/random/boot_id")


def process_start_time(pid: int) -> int | None:
    """When `pid` started, in clock ticks since boot; None if there is no such process, or only its corpse."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command name is in parentheses and may hold any character, parentheses and blanks too.
    fields = text[text.rfind(")") + 2 :].split()
    if len(fields) < 20 or fields[0] in ("Z", "X"):
        return None
    return int(fields[19])


def process_alive(pid: int, start_time: int) -> bool:
    """Whether the process that had `pid` and started at `start_time` is still running.

    The pair is unique within a boot; a pid alone is not, since pids are used again.
    """
    return pid > 0 and process_start_time(pid) == start_time


def versions() -> dict[str, str]:
    """Versions of tapewire, Python, the kernel and the libraries below us."""
    return {
        "tapewire": _version("tapewire"),
        "python": platform.python_version(),
        "kernel": platform.release(),
        **{name: _version(name) for name in _DEPENDENCIES},
    }


def capture() -> dict[str, Any]:
    """Everything about this host that a latency depends on; takes some 10 ms."""
    return {
        "hostname": platform.node() or UNKNOWN,
        "machine": platform.machine() or UNKNOWN,
        "cpu_model": _cpu_model(),
        "cpus_online": _read(_CPU / "online"),
        "cpus_usable": sorted(os.sched_getaffinity(0)),
        "cgroup_cpu_max": _read("/sys/fs/cgroup/cpu.max"),
        "smt": _read(_CPU / "smt/active"),
        "governor": _read(_CPU / "cpu0/cpufreq/scaling_governor"),
        "frequency_driver": _read(_CPU / "cpu0/cpufreq/scaling_driver"),
        "turbo": _turbo(),
        "c_states": _c_states(),
        "isolcpus": _read(_CPU / "isolated", empty="none"),
        "nohz_full": _read(_CPU / "nohz_full", empty="none"),
        "clock_source": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "hypervisor": _hypervisor(),
        "kernel": platform.release() or UNKNOWN,
        "kernel_version": platform.version() or UNKNOWN,
        "kernel_command_line": _read("/proc/cmdline"),
        "preemption": _preemption(),
        "transparent_huge_pages": _bracketed("/sys/kernel/mm/transparent_hugepage/enabled"),
        "shmem_huge_pages": _bracketed("/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
        "memory_bytes": _memory_bytes(),
        "load_average": load_average(),
        "rt_runtime_us": _read("/proc/sys/kernel/sched_rt_runtime_us"),
        "sched_autogroup": _read("/proc/sys/kernel/sched_autogroup_enabled"),
        "compiler": _build_fact("compiler"),
        "compiler_flags": _build_fact("cxx_flags"),
        "python_implementation": f"{platform.python_implementation()} {sys.version.split()[0]}",
        "versions": versions(),
        "git_commit": git_commit(),
    }


def load_average() -> list[float] | str:
    """The 1, 5 and 15 minute load average; taken before and after a measurement."""
    try:
        return [round(load, 2) for load in os.getloadavg()]
    except OSError:
        return UNKNOWN


def git_commit() -> str:
    """The commit of the source tree that runs, with "-dirty" where files differ; else "unknown"."""
    import subprocess

    here = Path(__file__).resolve().parent
    root = next((parent for parent in here.parents if (parent / ".git").exists()), None)
    if root is None or not (root / "native" / "journal").is_dir():
        return UNKNOWN  # an installed wheel, perhaps inside somebody else's repository

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        return f"{commit}-dirty" if git("status", "--porcelain", "--untracked-files=no") else commit
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN


def _read(path: str | Path, *, empty: str = UNKNOWN) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return UNKNOWN
    return empty if text in ("", "(null)") else text


def _guarded(read: Callable[[], str]) -> str:
    try:
        return read() or UNKNOWN
    except (OSError, ValueError, IndexError):
        return UNKNOWN


def _cpu_info(*keys: str) -> str:
    wanted = set(keys)
    for line in _read("/proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in wanted:
            return value.strip()
    return ""


def _cpu_model() -> str:
    return _guarded(lambda: _cpu_info("model name", "Model", "CPU part"))


def _turbo() -> str:
    no_turbo = _read(_CPU / "intel_pstate/no_turbo")
    if no_turbo != UNKNOWN:
        return "off" if no_turbo == "1" else "on"
    boost = _read(_CPU / "cpufreq/boost")
    return boost if boost == UNKNOWN else ("on" if boost == "1" else "off")


def _c_states() -> str:
    states = sorted(_CPU.glob("cpu0/cpuidle/state*"))
    if not states:
        driver = _read("/sys/devices/system/cpu/cpuidle/current_driver")
        return "none" if driver == "none" else UNKNOWN
    names = []
    for state in states:
        off = " (disabled)" if _read(state / "disable") == "1" else ""
        names.append(f"{_read(state / 'name')}{off}")
    return ", ".join(names)


def _hypervisor() -> str:
    flags = _cpu_info("flags", "Features").split()
    vendor = _read("/sys/class/dmi/id/sys_vendor")
    if "hypervisor" in flags:
        return "guest" if vendor == UNKNOWN else f"guest ({vendor})"
    return "none" if flags and platform.machine() == "x86_64" else UNKNOWN


def _preemption() -> str:
    version = platform.version()
    for word in ("PREEMPT_RT", "PREEMPT_DYNAMIC", "PREEMPT"):
        if word in version:
            return word
    return UNKNOWN


def _bracketed(path: str) -> str:
    text = _read(path)
    return text.partition("[")[2].partition("]")[0] or text


def _memory_bytes() -> int | str:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return UNKNOWN


def _version(distribution: str) -> str:
    from importlib import metadata  # 15 ms, and most who import this module want no version

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return UNKNOWN


def _build_fact(name: str) -> str:
    """What the extension module says about its own build."""
    try:
        from .. import _native
    except ImportError:
        return UNKNOWN
    return str(getattr(_native, name, UNKNOWN))
