"""Frames that are missing: a typed error that names the gap exactly, and a way to read on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tapewire import _native
from tapewire.journal import Journal, MergedReader, Writer
from tapewire.journal.errors import JournalCorrupt, JournalGap, StreamNotFound

from . import reference
from .conftest import PAGE_BYTES

FRAMES = 300


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """About seven pages of frames."""
    with Writer(tmp_path, "md", 1, page_bytes=PAGE_BYTES) as writer:
        for _ in range(FRAMES):
            writer.append("user", bytes(1400))
    return tmp_path


def page(run: Path, number: int) -> Path:
    return run / "journal" / "md" / f"{number:08d}.page"


def first_seq(run: Path, number: int) -> int:
    return reference.decode_header(page(run, number).read_bytes()).first_seq


def read_until_error(reader: MergedReader) -> tuple[list[int], Exception | None]:
    seqs: list[int] = []
    try:
        seqs.extend(frame.seq for frame in reader)
    except (JournalGap, JournalCorrupt) as error:
        return seqs, error
    return seqs, None


@pytest.mark.parametrize("removed", [(2,), (3, 4), (5,), (2, 3, 4, 5)])
def test_missing_middle_pages(run: Path, removed: tuple[int, ...]) -> None:
    last, after = first_seq(run, removed[0]) - 1, first_seq(run, removed[-1] + 1)
    for number in removed:
        page(run, number).unlink()
    with Journal.open(run).reader() as reader:
        seqs, error = read_until_error(reader)
        assert seqs == list(range(1, last + 1))
        assert isinstance(error, JournalGap)
        assert (error.prev, error.next) == (last, after)
        assert f"frames {last + 1} to {after - 1} are missing" in str(error)
        # It says so again, until it is told to go on.
        with pytest.raises(JournalGap):
            reader.read()
        reader.seek(seq=after)
        assert read_until_error(reader) == (list(range(after, FRAMES + 1)), None)


def test_missing_first_pages(run: Path) -> None:
    after = first_seq(run, 3)
    page(run, 1).unlink()
    page(run, 2).unlink()
    with Journal.open(run).reader() as reader:
        seqs, error = read_until_error(reader)
        assert seqs == []
        assert isinstance(error, JournalGap)
        assert (error.prev, error.next) == (0, after)
    with Journal.open(run).reader(from_seq=after + 5) as reader:
        assert read_until_error(reader) == (list(range(after + 5, FRAMES + 1)), None)
    with Journal.open(run).reader(from_seq=1) as reader:  # the first there is
        assert read_until_error(reader) == (list(range(after, FRAMES + 1)), None)


def test_missing_last_page_is_an_end(run: Path) -> None:
    last = max(int(p.stem) for p in page(run, 1).parent.glob("*.page"))
    end = first_seq(run, last)
    page(run, last).unlink()
    with Journal.open(run).reader() as reader:
        assert read_until_error(reader) == (list(range(1, end)), None)


@pytest.mark.parametrize("kept", [0, 128 + 3 * 1456])
def test_zeroed_page_is_a_gap_not_an_end(run: Path, kept: int) -> None:
    """What a punched-out page, or one that the disk lost, looks like to somebody who is in it."""
    number = 3
    start, after = first_seq(run, number), first_seq(run, number + 1)
    whole = start - 1 + (kept - 128) // 1456 if kept else start - 1
    with Journal.open(run).reader(from_seq=start) as reader:
        assert reader.read() is not None  # it has the page mapped
    data = page(run, number).read_bytes()
    page(run, number).write_bytes(data[: max(kept, 128)].ljust(len(data), b"\0"))
    with Journal.open(run).reader() as reader:
        seqs, error = read_until_error(reader)
        assert seqs == list(range(1, whole + 1))
        assert isinstance(error, JournalGap)
        assert (error.prev, error.next) == (whole, after)
        reader.seek(seq=after)
        assert read_until_error(reader) == (list(range(after, FRAMES + 1)), None)


def test_gap_in_one_stream_of_two(run: Path) -> None:
    """The other stream is read to its end first; then the error comes."""
    with Writer(run, "td", 2, page_bytes=PAGE_BYTES) as writer:
        for _ in range(10):
            writer.append("user", b"")
    last = first_seq(run, 2) - 1
    page(run, 2).unlink()
    with Journal.open(run).reader() as reader:
        frames: list[tuple[int, int]] = []
        with pytest.raises(JournalGap):
            frames.extend((f.stream_id, f.seq) for f in reader)
    assert [seq for stream, seq in frames if stream == 1] == list(range(1, last + 1))
    assert [seq for stream, seq in frames if stream == 2] == list(range(1, 11))
    with Journal.open(run).reader() as reader, pytest.raises(JournalGap):
        list(reader.batches(50))


def test_failed_seek_leaves_a_usable_reader(run: Path) -> None:
    """A seek into the hole says so; the reader then stands at the gap and can be moved again."""
    start, after = first_seq(run, 3), first_seq(run, 4)
    page(run, 3).unlink()
    with Writer(run, "td", 2, page_bytes=PAGE_BYTES) as writer:
        for _ in range(50):
            writer.append("user", bytes(5000))
    with Journal.open(run).reader() as reader:
        assert reader.read() is not None
        with pytest.raises(JournalGap):
            reader.seek(seq=start + 1)
        read_until_error(reader)
        reader.seek(seq=after)
        seqs, error = read_until_error(reader)
        assert error is None
        assert seqs == list(range(after, FRAMES + 1))


def test_damaged_frame_names_its_place(run: Path) -> None:
    number, nth = 4, 5
    seq = first_seq(run, number) + nth
    at = 128 + nth * 1456
    data = bytearray(page(run, number).read_bytes())
    data[at + 100] ^= 4
    page(run, number).write_bytes(data)
    with Journal.open(run).reader() as reader:
        seqs, error = read_until_error(reader)
    assert seqs == list(range(1, seq))
    assert isinstance(error, JournalCorrupt)
    assert (error.path, error.page, error.offset, error.seq) == (str(page(run, number)), number, at, seq)
    for text in (str(page(run, number)), str(at), str(seq)):
        assert text in str(error)


def test_page_under_another_name_is_refused(run: Path) -> None:
    os.rename(page(run, 3), page(run, 99))
    shutil.copy(page(run, 2), page(run, 3))
    with Journal.open(run).reader() as reader, pytest.raises(JournalCorrupt) as error:
        list(reader)
    assert "holds page 2, its name says 3" in str(error.value)


def test_stream_that_vanishes_under_its_reader(run: Path) -> None:
    with Journal.open(run).reader() as reader:
        assert reader.read() is not None
        shutil.rmtree(run / "journal" / "md")
        with pytest.raises(StreamNotFound):
            reader.seek(seq=5)
        read_until_error(reader)  # what it holds is still mapped
    with pytest.raises(StreamNotFound):
        Journal(run).reader(["md"])


def test_live_pages_come_before_recorded_ones(run: Path, tmp_path: Path) -> None:
    """The recorded copy ends earlier; a page that is gone from shared memory is read from the record."""
    live, recorded = tmp_path / "live", tmp_path / "recorded"
    shutil.copytree(run / "journal", live / "journal")
    shutil.copytree(run / "journal", recorded / "journal")
    (live / "journal" / "md" / "00000001.page").unlink()
    shutil.rmtree(recorded / "journal" / "md" / "lock", ignore_errors=True)
    last = max(int(p.stem) for p in (recorded / "journal" / "md").glob("*.page"))
    (recorded / "journal" / "md" / f"{last:08d}.page").unlink()
    with Journal(recorded, live).reader() as reader:
        assert read_until_error(reader) == (list(range(1, FRAMES + 1)), None)
    assert _native.list_pages(str(live / "journal" / "md"))[0] == 2
