"""The lines of a recording, plain or gzip, read in blocks, with errors that name the line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ..errors import InputError

__all__ = ["RecordingFile"]

_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK_BYTES = 1 << 18
# A 5,000-level snapshot is 300 KB; a "line" of this size is a file of another kind.
_LINE_BYTES_MAX = 1 << 24


class RecordingFile:
    """A recording opened for reading, whatever its name says: gzip is recognised by its first bytes.

    Iterating yields each line without its newline; `line` is the number of the last one, from 1.
    Raises `InputError` when the file is missing, unreadable or empty (at once), and when the gzip data
    is truncated or damaged or a line is absurdly long (naming the line where that happened).
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.line = 0
        try:
            plain: IO[bytes] = self.path.open("rb")
        except FileNotFoundError:
            raise InputError("no such file", path=path, hint="give the recording with --input FILE") from None
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror})", path=path) from None
        try:
            magic = plain.read(2)
            plain.seek(0)
        except OSError as error:
            plain.close()
            raise InputError(f"cannot be read ({error.strerror})", path=path) from None
        if not magic:
            plain.close()
            raise InputError("is empty", path=path, hint="a recording has at least one line")
        self._plain = plain
        self._bytes: IO[bytes] | gzip.GzipFile = plain
        if magic == _GZIP_MAGIC:
            self._bytes = gzip.GzipFile(fileobj=plain)

    def close(self) -> None:
        """Close the file; iteration then ends."""
        self._bytes.close()
        self._plain.close()

    def __enter__(self) -> RecordingFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        rest = b""
        while block := self._block():
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                self.line += 1
                yield line
            if len(rest) > _LINE_BYTES_MAX:
                raise InputError(
                    f"more than {_LINE_BYTES_MAX} bytes without a newline",
                    path=self.path,
                    line=self.line + 1,
                    hint="this is not a recording of one message per line",
                )
        if rest:
            self.line += 1
            yield rest

    def _block(self) -> bytes:
        try:
            return self._bytes.read(_BLOCK_BYTES)
        except EOFError:
            problem, hint = "the gzip data ends too early", "the copy is truncated; copy the file again"
        except (zlib.error, gzip.BadGzipFile) as error:
            problem, hint = f"the gzip data is damaged ({error})", "copy the file again"
        except OSError as error:
            problem, hint = f"cannot be read ({error.strerror})", ""
        raise InputError(problem, path=self.path, line=self.line + 1, hint=hint)
