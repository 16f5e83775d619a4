"""The recorder: its copy equals the live bytes, goes on after a restart, its mark survives a torn write."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tapewire import _native
from tapewire.journal import Journal, Recorder, Writer
from tapewire.journal.errors import JournalCorrupt

from .conftest import PAGE_BYTES


@pytest.fixture
def live(tmp_path: Path) -> Path:
    return tmp_path / "live"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


def mark(run: Path, stream: str = "md") -> dict[str, int] | None:
    return _native.read_watermark(str(run / "journal" / stream / "watermark"))


def pages(directory: Path, stream: str = "md") -> list[Path]:
    return sorted((directory / "journal" / stream).glob("*.page"))


def assert_copied(live: Path, run: Path, stream: str = "md") -> None:
    """Every recorded page holds what the live one does; one that was only prepared is not recorded."""
    recorded = {p.name: p.read_bytes() for p in pages(run, stream)}
    started = {p.name: p.read_bytes() for p in pages(live, stream) if _native.scan_page(str(p))["started"]}
    assert recorded == started


def write(writer: Writer, frames: int, size: int = 1000) -> None:
    for _ in range(frames):
        writer.append("user", bytes(size))


@pytest.mark.parametrize("fsync", [True, False])
def test_copy_equals_live_bytes(live: Path, run: Path, fsync: bool) -> None:
    rng = random.Random(5)
    with (
        Writer(live, "md", 1, page_bytes=PAGE_BYTES) as md,
        Writer(live, "td", 2, page_bytes=PAGE_BYTES) as td,
    ):
        recorder = Recorder(run, live, ["md", "td"], fsync=fsync)
        for _ in range(60):
            write(rng.choice([md, td]), rng.randrange(30), rng.randrange(3000))
            recorder.step()
            assert recorder.recorded == {"md": md.last_seq, "td": td.last_seq}
            assert_copied(live, run)
            assert_copied(live, run, "td")
            for stream, writer in (("md", md), ("td", td)):
                if (known := mark(run, stream)) is not None:
                    assert known["seq"] == writer.last_seq
                    assert known["synced"] is fsync
        assert recorder.finish() == 0
    assert len(pages(run)) > 5


def test_recorded_pages_are_read_alone(live: Path, run: Path) -> None:
    with Writer(live, "md", 1, page_bytes=PAGE_BYTES) as writer:
        write(writer, 200)
        Recorder(run, live, ["md"]).finish()
    for path in pages(live):
        path.unlink()
    with Journal.open(run).reader() as reader:
        assert [f.seq for f in reader] == list(range(1, 201))


def test_nothing_there_yet(live: Path, run: Path) -> None:
    recorder = Recorder(run, live, ["md"])
    assert recorder.step() == 0
    assert recorder.recorded == {"md": 0}
    assert mark(run) is None
    with Writer(live, "md", 1, page_bytes=PAGE_BYTES) as writer:
        write(writer, 3)
        assert recorder.step() > 0
    assert recorder.recorded == {"md": 3}


def test_goes_on_after_being_made_again(live: Path, run: Path) -> None:
    """A recorder per step, as when master dies and another takes over: at every position, page ends too."""
    with Writer(live, "md", 1, page_bytes=PAGE_BYTES) as writer:
        for seq in range(1, 301):
            write(writer, 1, 1000 if seq % 7 else 20_000)
            recorder = Recorder(run, live, ["md"])
            recorder.step()
            assert recorder.recorded == {"md": seq}
            assert recorder.step() == 0
    assert_copied(live, run)
    assert len(pages(run)) > 10


def test_goes_on_when_stopped_right_behind_a_page(live: Path, run: Path) -> None:
    """The mark that is published when a page is done, and none after it: the next page must not be missed."""
    with Writer(live, "md", 1, page_bytes=PAGE_BYTES) as writer:
        write(writer, 50)
        Recorder(run, live, ["md"]).step()
        write(writer, 100)
        Recorder(run, live, ["md"]).step()
    watermark = run / "journal" / "md" / "watermark"
    data = bytearray(watermark.read_bytes())
    slots = {int.from_bytes(data[at + 8 : at + 16], "little"): at for at in (0, 512)}
    newest = slots[max(slots)]
    data[newest : newest + 64] = bytes(64)  # the last mark never got there
    watermark.write_bytes(data)
    behind = mark(run)
    assert behind is not None
    assert (behind["page"], behind["offset"]) == (len(pages(run)), 0)
    recorder = Recorder(run, live, ["md"])
    recorder.finish()
    assert recorder.recorded == {"md": 150}
    assert_copied(live, run)


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("torn", [0, 1, 8, 16, 40, 56, 63])
def test_torn_mark_leaves_the_other(live: Path, run: Path, slot: int, torn: int) -> None:
    with Writer(live, "md", 1, page_bytes=PAGE_BYTES) as writer:
        recorder = Recorder(run, live, ["md"])
        seqs = []
        for _ in range(4 + slot):
            write(writer, 3)
            recorder.step()
            seqs.append(writer.last_seq)
        watermark = run / "journal" / "md" / "watermark"
        data = bytearray(watermark.read_bytes())
        newest = max((0, 512), key=lambda at: int.from_bytes(data[at + 8 : at + 16], "little"))
        assert newest == 512 * ((4 + slot) % 2)
        known = mark(run)
        assert known is not None
        assert known["seq"] == seqs[-1]
        # Only the first `torn` bytes of the newest slot were written, over what stood there before.
        data[newest + torn : newest + 64] = b"\xa5" * (64 - torn)
        watermark.write_bytes(data)
        known = mark(run)
        assert known is not None
        assert known["seq"] == seqs[-2]
        # A new recorder copies again from there: the same bytes, and then the rest.
        write(writer, 2)
        again = Recorder(run, live, ["md"])
        assert again.finish() > 0
        assert again.recorded == {"md": writer.last_seq}
    assert_copied(live, run)


def test_both_marks_lost(live: Path, run: Path) -> None:
    with Writer(live, "md", 1, page_bytes=PAGE_BYTES) as writer:
        write(writer, 200)
        Recorder(run, live, ["md"]).finish()
        (run / "journal" / "md" / "watermark").write_bytes(b"garbage")
        assert mark(run) is None
        recorder = Recorder(run, live, ["md"])
        recorder.finish()
        assert recorder.recorded == {"md": 200}
    assert_copied(live, run)


def test_writer_restart_is_recorded(live: Path, run: Path) -> None:
    recorder = Recorder(run, live, ["md"])
    for writers in range(1, 5):
        with Writer(live, "md", 1, page_bytes=PAGE_BYTES) as writer:
            write(writer, 5)
            recorder.step()
            assert recorder.recorded == {"md": 10 * writers - 5}
            write(writer, 5, 8)
        recorder.step()
        assert recorder.recorded == {"md": 10 * writers}
    assert_copied(live, run)


def test_damaged_live_page_stops_that_stream(live: Path, run: Path) -> None:
    with Writer(live, "md", 1, page_bytes=PAGE_BYTES) as writer:
        write(writer, 5)
        recorder = Recorder(run, live, ["md"])
        recorder.step()
        path = pages(live)[0]
        with path.open("r+b") as file:
            file.seek(128 + 5 * 1056)
            file.write((7).to_bytes(8, "little"))
        with pytest.raises(JournalCorrupt) as error:
            recorder.step()
        assert (error.value.page, error.value.offset) == (1, 128 + 5 * 1056)
        assert str(path) in str(error.value)
    with Journal.open(run).reader() as reader:
        assert [f.seq for f in reader] == [1, 2, 3, 4, 5]
