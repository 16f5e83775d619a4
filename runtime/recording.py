"""Master's recorder: live pages into the run directory, at intervals, on a thread of its own.

A copy or a sync may take as long as the disk likes; the event loop that watches the processes and answers
the command line never waits for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import structlog

__all__ = ["Recording", "StepRecorder"]

log = structlog.get_logger()


class StepRecorder(Protocol):
    """`tapewire.journal.recorder.Recorder`, as far as it is used here. Both calls release the GIL."""

    def step(self) -> int:
        """Copy, sync and publish what was committed since the last step; returns the bytes copied."""

    def finish(self) -> int:
        """Catch up with everything and sync; returns the bytes copied."""


class Recording:
    """Steps a recorder every `interval_s` seconds; `on_failure` gets the first error, then it rests."""

    def __init__(
        self, recorder: StepRecorder, interval_s: float, on_failure: Callable[[Exception], None]
    ) -> None:
        self.bytes_copied = 0
        self._recorder = recorder
        self._interval_s = interval_s
        self._on_failure = on_failure
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="recorder")
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to record."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def finish(self) -> None:
        """Record the rest and close; raises what the recorder raises. Call it when every writer has left."""
        self._closing.set()
        if self._task is not None:
            await self._task
            self._task = None
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._recorder.finish)
        finally:
            self._thread.shutdown(wait=False)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._closing.is_set():
            started = time.monotonic()
            try:
                self.bytes_copied += await loop.run_in_executor(self._thread, self._recorder.step)
            except Exception as error:
                log.exception("recorder failed")
                self._on_failure(error)
                return
            # Measured from the start of the step: a slow disk shortens the pause, and does not add to it.
            pause = max(0.001, self._interval_s - (time.monotonic() - started))
            try:
                await asyncio.wait_for(self._closing.wait(), pause)
            except TimeoutError:
                continue
