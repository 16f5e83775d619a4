"""Logging of master and children: logfmt lines on standard error, which is the process's log file.

In a hot loop a line costs one list append: a thread on another CPU writes it up to 200 ms later. Lines
at level error are written at once, and everything is written when the process ends by itself; after a
SIGKILL the last 200 ms may be missing.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, MutableMapping
from typing import Any, TextIO

import structlog

__all__ = ["LogWriter", "configure_logging", "logfmt"]

FLUSH_INTERVAL_S = 0.2
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+.,:;/@#%*()[]{}<>")


class LogWriter:
    """The log of a process, as structlog's logger: direct until `defer`, buffered from then on."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lines: list[str] = []
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def line(self, text: str) -> None:
        """Take one line."""
        self._lines.append(text)
        if self._thread is None:
            self.flush()
        elif not self._wake.is_set():
            self._wake.set()

    def urgent(self, text: str) -> None:
        """Take one line and write it, with all before it, now."""
        self._lines.append(text)
        self.flush()

    # structlog calls the method named after the level.
    debug = info = warning = line
    error = critical = urgent

    def flush(self) -> None:
        """Write what has been taken so far."""
        with self._lock:
            lines, self._lines = self._lines, []
            self._out.write("".join(f"{line}\n" for line in lines))
            self._out.flush()

    def defer(self, cpus: Iterable[int] = ()) -> None:
        """From now on write from a thread, on `cpus` if given: a line no longer costs its caller a write."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(set(cpus),), name="log", daemon=True)
            self._thread.start()

    def stop_deferring(self) -> None:
        """Write everything and go back to writing directly."""
        if self._thread is not None:
            self._closing.set()
            self._wake.set()
            self._thread.join()
            self._thread = None
            self._closing.clear()
        self.flush()

    def _run(self, cpus: set[int]) -> None:
        if cpus:
            os.sched_setaffinity(threading.get_native_id(), cpus)
        while not self._closing.is_set():
            self._wake.wait()  # without a timeout: a process that has nothing to say is never disturbed
            self._closing.wait(FLUSH_INTERVAL_S)
            self._wake.clear()
            self.flush()


def configure_logging(process: str, out: TextIO | None = None) -> LogWriter:
    """Send structlog's lines of this process to `out` (standard error), and tracebacks of native crashes."""
    writer = LogWriter(sys.stderr if out is None else out)
    if out is None:
        faulthandler.enable()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            _Renderer(process),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(20),
        logger_factory=lambda *_: writer,
        cache_logger_on_first_use=True,
    )
    return writer


class _Renderer:
    """`ts=2026-01-31T12:00:00.123456Z level=info process=md event=... key=value`; tracebacks follow."""

    def __init__(self, process: str) -> None:
        self._process = process

    def __call__(self, _logger: object, method: str, event: MutableMapping[str, Any]) -> str:
        now_ns = time.time_ns()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_ns // 1_000_000_000))
        traceback = event.pop("exception", None)
        fields = {
            "ts": f"{stamp}.{now_ns // 1_000 % 1_000_000:06d}Z",
            "level": event.pop("level", method),
            "process": self._process,
            "event": event.pop("event", ""),
            **event,
        }
        line = " ".join(f"{key}={logfmt(value)}" for key, value in fields.items())
        return f"{line}\n{traceback}" if traceback else line


def logfmt(value: Any) -> str:
    """`value` as logfmt writes it: bare if it has no space, quote or equals sign, else a JSON string."""
    text = str(value)
    return text if text and _BARE.issuperset(text) else json.dumps(text, ensure_ascii=False)
