"""One operating-system process, watched by pidfd: no SIGCHLD, no polling, no mistaken identity.

A pid alone names nobody once its process has ended; a pid with its start time does (the kernel counts
start times in clock ticks since boot, so this also needs the same boot).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .environment import process_alive, process_start_time

__all__ = ["ProcessWatch", "describe_exit", "tail_lines"]


def describe_exit(exit_code: int | None) -> str:
    """ "ended with exit status 1", "was killed by SIGKILL"."""
    if exit_code is None:
        return "ended"
    if exit_code >= 0:
        return f"ended with exit status {exit_code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-exit_code).name}"
    return f"was killed by signal {-exit_code}"


def tail_lines(path: str | Path, lines: int = 10, bytes_max: int = 8192) -> list[str]:
    """The last lines of a log, read from its end; empty if there is none."""
    try:
        with open(path, "rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - bytes_max))
            text = log.read().decode(errors="replace")
    except OSError:
        return []
    found = text.splitlines()
    if size > bytes_max:
        found = found[1:]  # the first one is cut
    return [line for line in found if line.strip()][-lines:]


class ProcessWatch:
    """A running process, ours or another's; `exited` is set by the event loop when it ends.

    Made by `spawn` or `attach`, within a running event loop. `exit_code` follows subprocess: negative is
    a signal, None is unknown (it runs, or it was not our child).
    """

    def __init__(self, pid: int, start_time: int, pidfd: int, child: subprocess.Popen[bytes] | None) -> None:
        self.pid = pid
        self.start_time = start_time
        self.exit_code: int | None = None
        self.exited = asyncio.Event()
        self.on_exit: Callable[[], None] | None = None
        self._child = child
        self._pidfd = pidfd
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(pidfd, self._ended)

    @classmethod
    def spawn(
        cls, argv: Sequence[str], log: str | Path, env: Mapping[str, str] | None = None
    ) -> ProcessWatch:
        """Start `argv`, its output appended to `log`; OSError if it cannot be.

        It stays in the caller's session, and so do all processes of a run. The kernel schedules sessions
        against each other (sched_autogroup): between two of them sched_yield() gives nothing away, and a
        niceness or the idle class counts for nothing.
        """
        with open(log, "ab") as output:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                close_fds=True,
                env=env,
            )
        # Until we reap it, the pid stays its own, so neither call can meet another process.
        start_time = process_start_time(child.pid)
        return cls(child.pid, start_time or 0, os.pidfd_open(child.pid), child)

    @classmethod
    def attach(cls, pid: int, start_time: int) -> ProcessWatch | None:
        """Watch a process that somebody else started; None if it has ended."""
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return None
        # In this order: the descriptor is of the process whose start time is read afterwards, or of none.
        if not process_alive(pid, start_time):
            os.close(pidfd)
            return None
        return cls(pid, start_time, pidfd, None)

    @property
    def alive(self) -> bool:
        """Whether the process has not been seen to end."""
        return not self.exited.is_set()

    def send_signal(self, number: signal.Signals) -> None:
        """Signal this very process, never one that got its pid."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    async def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended; False after `timeout_s` seconds."""
        if self.alive:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.exited.wait(), timeout_s)
        return not self.alive

    def release(self) -> None:
        """Stop watching a process that may go on."""
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _ended(self) -> None:
        self.release()
        if self._child is not None:
            self.exit_code = self._child.wait()
        self.exited.set()
        if self.on_exit is not None:
            self.on_exit()
