"""The golden pages of version 1: made and read the same every time, refused where they must be."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tapewire import _native
from tapewire.journal import Journal, MergedReader, Recorder, Writer, decode, format
from tapewire.journal.errors import JournalCorrupt, JournalVersionUnsupported, NotAJournal, TapewireError

from . import reference
from .conftest import DATA, golden_page

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_golden_pages.py"
NAMES = ("clean", "torn_tail", "zero_page", "future_version")


def test_script_makes_the_same_bytes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], check=True, capture_output=True)
    made = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*.page")}
    kept = {p.relative_to(DATA): p.read_bytes() for p in DATA.rglob("*") if p.is_file()}
    assert made == kept
    assert {p.parts[0] for p in kept} == set(NAMES)
    assert all(len(data) <= 64 * 1024 for data in kept.values())


def test_native_reader_equals_reference() -> None:
    page = reference.decode_page(golden_page("clean").read_bytes())
    assert page.ended_by == "page end"
    assert {f.type for f in page.frames} >= {int(t) for t in format.FrameType} - {format.FrameType.PAGE_END}
    with Journal.open(DATA / "clean").reader() as reader:
        frames = list(reader)
    assert len(frames) == len(page.frames) == 36
    for ours, theirs in zip(frames, page.frames, strict=True):
        for field in (
            "type",
            "schema",
            "seq",
            "gen_time",
            "stream_id",
            "epoch",
            "cause",
            "root",
            "root_type",
            "payload",
        ):
            assert getattr(ours, field) == getattr(theirs, field), field
        assert decode(ours) == reference.decode_payload(theirs.type, theirs.payload)


def test_some_values_by_hand() -> None:
    """So that a mistake shared by both decoders would still show."""
    with Journal.open(DATA / "clean").reader(types=["order_report"]) as reader:
        first = next(iter(reader))
    assert decode(first) == {
        "order_id": 1 << 48 | 5,
        "instrument_id": 3,
        "status": 5,
        "side": 2,
        "reason": 18,
        "price": 60_123_450_000_000,
        "quantity": 1_250_000_000,
        "filled": 7,
        "leaves": 11,
        "request_id": 41,
        "book_seq": 91,
        "book_stream": 4,
        "action": 1,
    }
    assert (first.seq, first.cause, first.root, first.root_type) == (5, (1, 4), (2, 77), 1)


def test_torn_tail_ends_at_the_last_whole_frame() -> None:
    path = golden_page("torn_tail")
    page = reference.decode_page(path.read_bytes())
    assert (page.ended_by, len(page.frames)) == ("crc", 35)
    scan = _native.scan_page(str(path))
    assert (scan["frames"], scan["valid_end"], scan["clean"]) == (35, page.end, False)
    with Journal.open(DATA / "torn_tail").reader() as reader:
        seqs: list[int] = []
        with pytest.raises(JournalCorrupt) as error:
            seqs.extend(frame.seq for frame in reader)
    assert (error.value.page, error.value.offset, error.value.seq) == (1, page.end, 36)
    assert str(path) in str(error.value)


def open_reader(run: Path) -> Any:
    return Journal.open(run).reader()


def open_writer(run: Path) -> Any:
    return Writer(run, "md", 1, page_bytes=65_536)


def scan(run: Path) -> Any:
    return _native.scan_page(str(run / "journal" / "md" / "00000001.page"))


def record(run: Path) -> Any:
    return Recorder(run / "copy", run, ["md"]).step()


def headers(run: Path) -> Any:
    return Journal.open(run).headers()


@pytest.mark.parametrize("action", [open_reader, open_writer, scan, record, headers])
@pytest.mark.parametrize(
    ("name", "error"), [("zero_page", NotAJournal), ("future_version", JournalVersionUnsupported)]
)
def test_refused_by_name_and_not_touched(
    name: str, error: type[TapewireError], action: Callable[[Path], Any], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(DATA / name, run)
    path = run / "journal" / "md" / "00000001.page"
    os.utime(path, ns=(1, 1))
    with pytest.raises(error) as raised:
        action(run)
    assert str(path) in str(raised.value)
    assert raised.value.exit_status == 2
    if name == "future_version":
        assert "version 2" in str(raised.value)
        assert "version 1" in str(raised.value)
    assert path.read_bytes() == golden_page(name).read_bytes()
    assert path.stat().st_mtime_ns == 1
    assert [p.name for p in path.parent.iterdir() if p.suffix == ".page"] == ["00000001.page"]


def test_readers_create_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(DATA / "clean", run)
    before = sorted(p.relative_to(run) for p in run.rglob("*"))
    with MergedReader([str(run / "journal")], ["md"]) as reader:
        assert len(list(reader)) == 36
    assert len(Journal.open(run).headers()) == 36
    _native.scan_page(str(run / "journal" / "md" / "00000001.page"))
    assert sorted(p.relative_to(run) for p in run.rglob("*")) == before
