"""The errors of the journal: one class per thing the operator must do.

Every message is one line that says what was found, where, and what to do next. `exit_status` is what
the command line returns: 2 where the input was bad and nothing was started, 1 where a run failed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self


class TapewireError(Exception):
    """Base of every error that tapewire raises on purpose; the message is one line for the operator."""

    exit_status = 1

    @classmethod
    def from_native(
        cls, message: str, path: str, page: int, offset: int, seq: int, previous_seq: int, bytes_needed: int
    ) -> Self:
        """The error that the native core raised: its message as it is, and what it knows as attributes."""
        error = cls.__new__(cls)
        Exception.__init__(error, message)
        known: dict[str, Any] = {
            "path": path,
            "page": page,
            "offset": offset,
            "seq": seq,
            "bytes_needed": bytes_needed,
            "prev": previous_seq,
            "next": seq,
        }
        for name in cls.native_fields:
            setattr(error, name, known[name])
        return error

    #: Which of the native core's facts this class carries.
    native_fields: tuple[str, ...] = ("path",)


class JournalIOError(TapewireError):
    """The system refused something that a journal needs (open, map, rename); the message names it."""


class JournalUsage(TapewireError, ValueError):
    """A call that cannot be meant: no such frame type, a payload of the wrong size, a closed reader."""

    exit_status = 2


class RunNotFound(TapewireError):
    """No run of that name, directory or "last"."""

    exit_status = 2


class StreamNotFound(TapewireError):
    """The run has no stream of that name."""

    exit_status = 2

    def __init__(self, stream: str, where: str | Path, known: tuple[str, ...] | list[str] = ()) -> None:
        self.stream = stream
        self.known = tuple(known)
        names = f"its streams are {', '.join(self.known)}" if self.known else "it has no streams"
        super().__init__(f"{where}: no stream {stream!r}; {names}")


class NotAJournal(TapewireError):
    """The file does not start with the journal's magic; nothing was written to it."""

    exit_status = 2

    def __init__(self, path: str | Path, found: str = "") -> None:
        self.path = str(path)
        detail = f" (found {found})" if found else ""
        super().__init__(f"{path}: not a journal page{detail}; nothing was written to it")


class JournalVersionUnsupported(TapewireError):
    """The page was written in a format version that this tapewire does not know."""

    exit_status = 2

    def __init__(self, path: str | Path, version: int, supported: int) -> None:
        self.path = str(path)
        self.version = version
        self.supported = supported
        super().__init__(
            f"{path}: journal format version {version}, this tapewire reads version {supported}; "
            "read it with the tapewire that wrote it"
        )


class JournalFull(TapewireError):
    """No space for the next page; raised before the first byte of the frame."""

    exit_status = 2
    native_fields = ("path", "bytes_needed")

    def __init__(self, path: str | Path, bytes_needed: int, bytes_free: int | None = None) -> None:
        self.path = str(path)
        self.bytes_needed = bytes_needed
        self.bytes_free = bytes_free
        free = "" if bytes_free is None else f", {bytes_free} bytes are free"
        super().__init__(
            f"{path}: no space for a page of {bytes_needed} bytes{free}; "
            "free space there (`tapewire runs prune`) or use a smaller run.page_bytes"
        )


class JournalLocked(TapewireError):
    """Another process writes this stream."""

    exit_status = 2

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        super().__init__(
            f"{path}: the stream has a writer already; stop that run first (`tapewire stop RUN`)"
        )


class JournalCorrupt(TapewireError):
    """A committed frame or a page header fails its check."""

    native_fields = ("path", "page", "offset", "seq")

    def __init__(
        self, path: str | Path, page: int, offset: int, seq: int, what: str = "bad checksum"
    ) -> None:
        self.path = str(path)
        self.page = page
        self.offset = offset
        self.seq = seq
        super().__init__(
            f"{path}: {what} in page {page} at offset {offset}, frame {seq}; frames before it are intact"
        )


class JournalGap(TapewireError):
    """Frames between `prev` and `next` are missing from what this reader can reach."""

    native_fields = ("path", "prev", "next")

    def __init__(self, prev: int, next: int, where: str | Path = "") -> None:
        self.prev = prev
        self.next = next
        place = f"{where}: " if where else ""
        super().__init__(
            f"{place}frames {prev + 1} to {next - 1} are missing; "
            "they were removed before this reader came to them, or were never recorded"
        )


class FrameTooLarge(TapewireError):
    """The frame does not fit into a page."""

    def __init__(self, bytes_needed: int, bytes_max: int) -> None:
        self.bytes_needed = bytes_needed
        self.bytes_max = bytes_max
        super().__init__(
            f"a frame of {bytes_needed} bytes does not fit, the largest is {bytes_max}; raise run.page_bytes"
        )


class JoinTimeout(TapewireError):
    """The stream did not appear in time."""

    def __init__(self, stream: str, where: str | Path, timeout_s: float) -> None:
        self.stream = stream
        self.timeout_s = timeout_s
        super().__init__(
            f"{where}: stream {stream!r} did not appear within {timeout_s:g} s; its writer has not started"
        )
