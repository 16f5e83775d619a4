"""The writer as Python sees it: one at a time, what it refuses, and taking over a stream from a dead one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tapewire import _native
from tapewire.journal import Journal, Writer
from tapewire.journal.errors import (
    FrameTooLarge,
    JournalCorrupt,
    JournalIOError,
    JournalLocked,
    JournalUsage,
    StreamNotFound,
    TapewireError,
)

from .conftest import PAGE_BYTES
from .processes import writer_process


def seqs(run: Path) -> list[int]:
    with Journal.open(run).reader() as reader:
        return [frame.seq for frame in reader]


def test_second_writer_is_refused_and_the_first_named(tmp_path: Path) -> None:
    with writer_process(tmp_path, 10) as process:
        pages = {p: p.read_bytes() for p in (tmp_path / "journal" / "md").glob("*.page")}
        with pytest.raises(JournalLocked) as error:
            Writer(tmp_path, "md", 1, page_bytes=PAGE_BYTES)
        assert f"pid {process.pid}" in str(error.value)
        assert str(tmp_path / "journal" / "md" / "lock") in str(error.value)
        assert error.value.path == str(tmp_path / "journal" / "md" / "lock")
        assert error.value.exit_status == 2
        assert {p: p.read_bytes() for p in pages} == pages
        # Another stream of the same run is free.
        Writer(tmp_path, "td", 2, page_bytes=PAGE_BYTES).close()


def test_lock_is_free_when_its_holder_is_killed(tmp_path: Path) -> None:
    for round_ in range(1, 6):
        with writer_process(tmp_path, 100) as process:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            # No waiting, no stale file to remove: the kernel let go of it.
            with Writer(tmp_path, "md", 1, page_bytes=PAGE_BYTES) as writer:
                assert writer.last_seq == round_ * 100 + round_ - 1
                assert writer.epoch == 2 * round_
                writer.append("text", b"taken over")
    assert seqs(tmp_path) == list(range(1, 506))


def test_lock_is_not_inherited_by_children(tmp_path: Path) -> None:
    """A child that outlives its parent must not keep the stream locked."""
    code = (
        "import subprocess, sys; from tapewire.journal import Writer; "
        "w = Writer(sys.argv[1], 'md', 1, page_bytes=65536); "
        "c = subprocess.Popen(['sleep', '60'], close_fds=False, stdout=subprocess.DEVNULL); "
        "print(c.pid, flush=True); import os; os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=True, stdout=subprocess.PIPE, text=True
    )
    child = int(done.stdout)
    try:
        Writer(tmp_path, "md", 1, page_bytes=PAGE_BYTES).close()
        os.kill(child, 0)  # it is still there
    finally:
        os.kill(child, signal.SIGKILL)


def test_frame_too_large(tmp_path: Path) -> None:
    with Writer(tmp_path, "md", 1, page_bytes=PAGE_BYTES) as writer:
        largest = PAGE_BYTES - 128 - 56 - 56
        writer.append("user", bytes(largest))
        with pytest.raises(FrameTooLarge) as error:
            writer.append("user", bytes(largest + 1))
        assert str(largest) in str(error.value)
        assert str(largest + 1) in str(error.value)
        assert writer.last_seq == 1
        writer.append("user", b"")
    assert seqs(tmp_path) == [1, 2]


@pytest.mark.parametrize("type_", [0, 65_535])
def test_types_that_are_no_frames(tmp_path: Path, type_: int) -> None:
    """A page_end from outside would end the stream for every reader."""
    with Writer(tmp_path, "md", 1, page_bytes=PAGE_BYTES) as writer:
        with pytest.raises(ValueError, match="1 to 65534"):
            writer.append(type_, b"")
        assert writer.append("text", b"still here") == 1
    assert seqs(tmp_path) == [1]


def test_payload_must_fit_its_type(tmp_path: Path) -> None:
    with Writer(tmp_path, "md", 1, page_bytes=PAGE_BYTES) as writer:
        for payload in (b"", bytes(39), bytes(41)):
            with pytest.raises(ValueError, match="40 bytes"):
                writer.append("order_input", payload)
        with pytest.raises(JournalUsage, match="no field 'prize'"):
            writer.append("order_input", prize=1)
        with pytest.raises(JournalUsage, match="no frame type 'order'"):
            writer.append("order", b"")
        assert writer.last_seq == 0


@pytest.mark.parametrize(
    ("stream", "stream_id", "page_bytes"),
    [
        ("", 1, PAGE_BYTES),
        ("a/b", 1, PAGE_BYTES),
        (".hidden", 1, PAGE_BYTES),
        ("x" * 32, 1, PAGE_BYTES),
        ("md", 0, PAGE_BYTES),
        ("md", 64, PAGE_BYTES),
        ("md", 1, 4096),
        ("md", 1, PAGE_BYTES + 1),
        ("md", 1, 1 << 31),
    ],
)
def test_bad_identity(tmp_path: Path, stream: str, stream_id: int, page_bytes: int) -> None:
    with pytest.raises(JournalIOError):
        Writer(tmp_path, stream, stream_id, page_bytes=page_bytes)
    assert list(tmp_path.iterdir()) == []


def test_stream_of_another_id_is_refused(tmp_path: Path) -> None:
    Writer(tmp_path, "md", 1, page_bytes=PAGE_BYTES).close()
    with pytest.raises(JournalCorrupt, match="stream 1, expected 2"):
        Writer(tmp_path, "md", 2, page_bytes=PAGE_BYTES)


def test_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("a file")
    with pytest.raises(TapewireError, match="cannot"):
        Writer(tmp_path, "md", 1, page_bytes=PAGE_BYTES)


def test_closed_writer(tmp_path: Path) -> None:
    writer = Writer(tmp_path, "md", 1, page_bytes=PAGE_BYTES)
    writer.close()
    writer.close()
    with pytest.raises(TapewireError, match="closed"):
        writer.append("text", b"")


def test_recovery_counts_what_it_cuts(tmp_path: Path) -> None:
    with Writer(tmp_path, "md", 1, page_bytes=PAGE_BYTES) as writer:
        for _ in range(3):
            writer.append("user", bytes(range(100)))
    page = tmp_path / "journal" / "md" / "00000001.page"
    data = bytearray(page.read_bytes())
    third = 128 + 2 * 160
    data[third + 60] ^= 1
    page.write_bytes(data)
    used = len(data.rstrip(b"\0"))
    native = _native.StreamWriter(str(tmp_path / "journal"), "md", 1, 0, 1, PAGE_BYTES)
    assert (native.last_seq, native.recovered_cut_bytes, native.epoch) == (2, used - third, 2)
    native.close()
    assert seqs(tmp_path) == [1, 2]


def test_joining_a_stream_that_does_not_come(tmp_path: Path) -> None:
    from tapewire.journal.errors import JoinTimeout

    (tmp_path / "journal").mkdir()
    with pytest.raises(JoinTimeout) as error:
        _native.LiveReader(str(tmp_path / "journal"), ["md"], timeout_s=0.05)
    assert "'md'" in str(error.value)
    with pytest.raises(StreamNotFound):
        Journal(tmp_path).reader(["md"])
    assert list((tmp_path / "journal").iterdir()) == []
