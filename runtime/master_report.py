"""What master tells whoever launched it: one JSON line per event on an inherited pipe.

The pipe outlives neither end: a launcher that dies is not missed, and a master that dies without a last
word is noticed at once.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import TypeAlias

import msgspec

__all__ = ["MasterReport", "ReportReader", "ReportWriter", "RunEnded", "RunStarted", "StartFailed"]


class RunStarted(msgspec.Struct, tag="started", frozen=True):
    """Every process is in its loop; `start_s` is how long that took, `warnings` what the system refused."""

    start_s: float
    warnings: list[str] = []


class StartFailed(msgspec.Struct, tag="start-failed", frozen=True):
    """The run did not come up and nothing of it is left; `tail` is the end of the guilty process's log."""

    error: str
    exit_status: int
    tail: str = ""


class RunEnded(msgspec.Struct, tag="ended", frozen=True):
    """The run is over and recorded. `state` as in the manifest; `failed` names the broken processes."""

    state: str
    exit_status: int
    problems: list[str] = []
    failed: list[str] = []


MasterReport: TypeAlias = RunStarted | StartFailed | RunEnded

_decoder: msgspec.json.Decoder[MasterReport] = msgspec.json.Decoder(MasterReport)


class ReportWriter:
    """Master's end. `fd` below 0: nobody wants to know."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        if fd >= 0:
            os.set_inheritable(fd, False)  # the children must not hold it open

    def send(self, report: MasterReport) -> None:
        """Write one line; a launcher that has gone is not an error."""
        if self._fd >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._fd, msgspec.json.encode(report) + b"\n")

    def close(self) -> None:
        """Let the launcher see the end; safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class ReportReader:
    """The launcher's end of the pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = b""
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self.at_end = False

    def read(self, timeout_s: float | None) -> MasterReport | None:
        """The next report; None after `timeout_s` seconds, or when master has gone (then `at_end`)."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            if self.at_end:
                return None
            left_ms = None if deadline is None else max(0.0, (deadline - time.monotonic()) * 1e3)
            if not self._poll.poll(left_ms):
                return None
            data = os.read(self._fd, 65536)
            self.at_end = not data
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return _decoder.decode(line)

    def close(self) -> None:
        """Close it; safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self.at_end = True
