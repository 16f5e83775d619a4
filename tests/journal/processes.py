"""Writers in processes of their own, to be killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Writes frames to the stream "md" of a run directory and says each seq once it is committed; then waits.
_WRITER = """
import sys
from tapewire.journal import Writer
run, frames = sys.argv[1], int(sys.argv[2])
writer = Writer(run, "md", 1, page_bytes=65536)
for _ in range(frames):
    writer.append("user", bytes(1000))
print(writer.last_seq, flush=True)
sys.stdin.read()
"""


@contextmanager
def writer_process(run: Path, frames: int) -> Iterator[subprocess.Popen[str]]:
    """A process that has written `frames` frames and holds the stream; it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(run), str(frames)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip()
        yield process
    finally:
        process.kill()
        process.communicate()
