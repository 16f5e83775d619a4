"""The recorder: what was committed to live pages, copied into the run directory and synced.

It runs in master, off the event path, and again in whoever finishes a run whose master died.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from .. import _native


class Recorder:
    """Copies the streams of a run; continues where an earlier recorder of the same run stopped.

    `step()` and `finish()` release the interpreter lock. Both raise JournalFull when the run directory has no
    space and JournalCorrupt when a live page is damaged; what was copied before stays good.
    """

    def __init__(
        self,
        run_dir: str | os.PathLike[str],
        live_dir: str | os.PathLike[str],
        streams: Sequence[str],
        *,
        fsync: bool = True,
    ) -> None:
        self.streams = tuple(streams)
        self._native = _native.NativeRecorder(
            os.path.join(live_dir, "journal"), os.path.join(run_dir, "journal"), list(streams), fsync
        )

    def step(self) -> int:
        """Copy what is new; returns its bytes. Publishes the watermark of every stream that grew."""
        return self._native.step()

    def finish(self) -> int:
        """Copy until nothing is new. Call it when every writer has left."""
        total = 0
        while copied := self.step():
            total += copied
        return total

    @property
    def recorded(self) -> dict[str, int]:
        """Last recorded seq per stream."""
        return dict(zip(self.streams, self._native.recorded, strict=True))
