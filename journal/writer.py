"""Writing a stream from Python: tools, tests and a user's own frames. Hot processes write natively."""

from __future__ import annotations

import os
from typing import Any

from .. import _native
from .errors import JournalUsage
from .format import encode_payload, payload_bytes, type_id

DEFAULT_PAGE_BYTES = 16 << 20


class Writer:
    """The one writer of a stream, below `directory`/journal. Raises JournalLocked when somebody else is.

    A stream that exists is continued after its last valid frame, in a new epoch.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        stream: str,
        stream_id: int,
        *,
        run_id: int = 0,
        epoch: int = 1,
        page_bytes: int = DEFAULT_PAGE_BYTES,
    ) -> None:
        self._native = _native.StreamWriter(
            os.path.join(directory, "journal"), stream, stream_id, run_id, epoch, page_bytes
        )
        self.stream = stream

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(
        self,
        type_: str | int,
        payload: bytes | None = None,
        *,
        cause: tuple[int, int] | None = None,
        root: tuple[int, int, int] | None = None,
        **fields: int,
    ) -> int:
        """Publish one frame and return its seq: `payload` bytes, or the fields of a fixed type.

        cause = (stream id, seq), root = (stream id, seq, type). Raises JournalFull, FrameTooLarge, and
        JournalUsage for a payload of the wrong size.
        """
        number = type_id(type_)
        data: Any = encode_payload(number, **fields) if payload is None else payload
        size = payload_bytes(number)
        if size and len(data) != size:
            raise JournalUsage(f"a {type_} payload has {size} bytes, not {len(data)}")
        return self._native.append(number, data, cause, root)

    @property
    def last_seq(self) -> int:
        """Seq of the last frame, 0 before the first."""
        return self._native.last_seq

    @property
    def epoch(self) -> int:
        """The epoch this writer writes in."""
        return self._native.epoch

    def close(self) -> None:
        """Let go of the stream and its lock."""
        self._native.close()
