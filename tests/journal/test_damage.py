"""A golden page cut off at every byte, and with every bit flipped, through the reader and the scan of users.

The figures are printed (`pytest -s`); `tests/native/test_damage.cpp` does the same below Python.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tapewire import _native
from tapewire.journal import MergedReader
from tapewire.journal.errors import JournalCorrupt, JournalVersionUnsupported, NotAJournal, TapewireError

from . import reference
from .conftest import golden_page, put_page

CLEAN = golden_page("clean").read_bytes()
PAGE = reference.decode_page(CLEAN)
HEADER_BYTES = reference.PAGE_HEADER_BYTES
#: The end of what was committed: the page_end frame is the last of it.
COMMITTED = PAGE.end + reference.HEADER_BYTES


def frames_before(at: int) -> int:
    """How many frames lie wholly before byte `at`."""
    return sum(frame.offset + frame.length <= at for frame in PAGE.frames)


def read_all(run: Path, *, verify: bool = True) -> tuple[list[tuple[int, bytes]], TapewireError | None]:
    """Everything a reader returns, and the error it ends with."""
    frames: list[tuple[int, bytes]] = []
    try:
        with MergedReader([str(run / "journal")], ["md"], verify=verify) as reader:
            while (frame := reader.read()) is not None:
                frames.append((frame.seq, frame.payload))
    except TapewireError as error:
        return frames, error
    return frames, None


ALL = [(frame.seq, frame.payload) for frame in PAGE.frames]


def test_cut_off_at_every_byte(tmp_path: Path) -> None:
    """Never a crash; the result is the longest valid prefix, and what is missing is said."""
    path = put_page(tmp_path, CLEAN)
    refused = prefixes = 0
    for size in range(len(CLEAN), -1, -1):
        os.truncate(path, size)
        if size < HEADER_BYTES:
            with pytest.raises(NotAJournal):
                _native.scan_page(str(path))
            assert isinstance(read_all(tmp_path)[1], NotAJournal)
            refused += 1
            continue
        whole = frames_before(size)
        scan = _native.scan_page(str(path))
        assert (scan["frames"], scan["next_seq"]) == (whole, whole + 1)
        assert scan["clean"] == (size == len(CLEAN))
        # Behind the last frame a reader has nothing more to say every few bytes.
        if size <= COMMITTED + 64 or size % 64 == 0:
            frames, error = read_all(tmp_path)
            assert frames == ALL[:whole]
            assert (error is None) == (size >= COMMITTED)
            if error is not None:
                assert isinstance(error, JournalCorrupt)
                assert error.seq == whole + 1
        prefixes += 1
    print(f"\ncut off: {refused + prefixes} lengths, {refused} refused, {prefixes} longest valid prefixes")


def test_every_bit_flipped(tmp_path: Path) -> None:
    """Every single-bit error over header and committed bytes is found, and no wrong frame returned."""
    path = put_page(tmp_path, CLEAN)
    fd = os.open(path, os.O_RDWR)
    flips = detected = false_accepts = 0
    try:
        for at in range(COMMITTED):
            whole = frames_before(at)
            for bit in range(8):
                os.pwrite(fd, bytes([CLEAN[at] ^ 1 << bit]), at)
                flips += 1
                frames, error = read_all(tmp_path)
                false_accepts += frames != ALL[:whole]
                detected += error is not None
                if at < 8:
                    assert isinstance(error, NotAJournal)
                elif at < 12:
                    assert isinstance(error, JournalVersionUnsupported)
                else:
                    assert isinstance(error, JournalCorrupt)
            os.pwrite(fd, CLEAN[at : at + 1], at)
    finally:
        os.close(fd)
    print(f"\nbit flips: {flips}, detected {detected}, false accepts {false_accepts}")
    assert (detected, false_accepts) == (flips, 0)
    assert read_all(tmp_path) == (ALL, None)


def test_scan_and_reference_agree_on_damage(tmp_path: Path) -> None:
    """Both end at the same frame, whatever is wrong: a bit of every committed byte, one after the other."""
    endings = {
        "length": "commit word holds an impossible length",
        "crc": "frame fails its CRC",
        "padding": "padding is not zero",
        "stream": "frame names another stream",
        "seq": "sequence number is not the next one",
        "cut off": "file is cut off",
        "page end": "complete page",
        "tail": "bytes after the end-of-page frame",
    }
    for at in range(HEADER_BYTES, COMMITTED, 11):
        damaged = bytearray(CLEAN)
        damaged[at] ^= 1 << at % 8
        path = put_page(tmp_path, bytes(damaged))
        page = reference.decode_page(bytes(damaged))
        scan = _native.scan_page(str(path))
        assert (scan["frames"], scan["valid_end"]) == (len(page.frames), page.end)
        assert scan["finding"] == endings[page.ended_by]


def test_reader_that_does_not_verify_stays_inside(tmp_path: Path) -> None:
    """Without the CRC a reader may return wrong bytes, but never bytes that are not the page's."""
    path = put_page(tmp_path, CLEAN)
    fd = os.open(path, os.O_RDWR)
    try:
        for frame in PAGE.frames:
            for at in range(frame.offset, frame.offset + reference.HEADER_BYTES):
                for value in (0, 7, 8, 0x7F, 0xFF):
                    os.pwrite(fd, bytes([value]), at)
                    frames, _ = read_all(tmp_path, verify=False)
                    assert sum(len(payload) for _, payload in frames) < len(CLEAN)
                os.pwrite(fd, CLEAN[at : at + 1], at)
    finally:
        os.close(fd)
