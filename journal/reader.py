"""Reading a journal: frames one by one, or batches as numpy structured arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .. import _native
from .errors import JournalUsage
from .format import HEADER_BYTES, decode_payload, header_dtype, payload_bytes, row_dtype, type_id

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Frame = _native.Frame

#: Frames a batch holds unless told otherwise: large enough to amortise the call, small enough for the cache.
BATCH_FRAMES = 16_384


class Batch:
    """Frames in order: `headers` at once, whole rows of a type on demand. It keeps its pages mapped."""

    __slots__ = ("_native", "headers")

    def __init__(self, native: _native.NativeBatch, headers: npt.NDArray[Any]) -> None:
        self._native = native
        #: Structured array of `format.header_dtype()`, shape (frames,).
        self.headers = headers

    def __len__(self) -> int:
        return len(self._native)

    def rows(self, type_: str | int) -> npt.NDArray[Any]:
        """The frames of one fixed type as `format.row_dtype(type)`, in order; a copy, empty for none."""
        import numpy as np

        number = type_id(type_)
        rows: npt.NDArray[Any] = np.empty(self._native.count(number), row_dtype(number))
        self._native.rows_into(number, payload_bytes(number), rows.view(np.uint8))
        return rows


class MergedReader:
    """Streams merged into one total order, the same every time: (epoch, gen_time, stream id, seq).

    Over a run that still writes, the end is where the writers are now: `read()` returns None there and may
    return more later. The total order holds for what was there when a frame was chosen.
    """

    def __init__(
        self,
        directories: Sequence[str],
        streams: Sequence[str],
        types: Sequence[str | int] | None = None,
        *,
        verify: bool = True,
    ) -> None:
        numbers = None if types is None else [type_id(t) for t in types]
        self._native: _native.NativeReader | None = _native.NativeReader(
            list(directories), list(streams), numbers, verify
        )
        self.streams = tuple(streams)

    def __enter__(self) -> MergedReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the pages. Frames and batches that were returned stay valid."""
        self._native = None

    def _reader(self) -> _native.NativeReader:
        if self._native is None:
            raise JournalUsage("this reader is closed; open another with Journal.reader()")
        return self._native

    def seek(self, *, seq: int | None = None, time_ns: int | None = None) -> None:
        """Go to the first frame of each stream with seq >= `seq`, or gen_time >= `time_ns` (monotonic ns).

        A binary search over page headers. Raises JournalUsage unless exactly one is given.
        """
        if (seq is None) == (time_ns is None):
            raise JournalUsage("seek takes seq or time_ns, one of them")
        if seq is not None:
            self._reader().seek_seq(seq)
        elif time_ns is not None:
            self._reader().seek_time(time_ns)

    def read(self) -> Frame | None:
        """The next frame; None at the end. Raises JournalCorrupt, JournalGap."""
        return self._reader().read()

    def __iter__(self) -> Iterator[Frame]:
        return iter(self._reader())

    def read_batch(self, max_frames: int = BATCH_FRAMES) -> Batch:
        """Up to `max_frames` frames; empty at the end. Raises JournalCorrupt, JournalGap."""
        import numpy as np

        headers: npt.NDArray[np.uint8] = np.empty(max_frames * HEADER_BYTES, np.uint8)
        native = self._reader().fill(headers)
        return Batch(native, headers[: len(native) * HEADER_BYTES].view(header_dtype()))

    def batches(self, max_frames: int = BATCH_FRAMES) -> Iterator[Batch]:
        """Batches until the end."""
        while len(batch := self.read_batch(max_frames)):
            yield batch


def decode(frame: Frame) -> dict[str, Any]:
    """The fields of a frame's payload; see `format.decode_payload`."""
    return decode_payload(frame.type, frame.payload)
