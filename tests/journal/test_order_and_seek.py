"""The total order over streams, whatever order they are named in; and seeks against walking there."""

from __future__ import annotations

import random
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapewire.journal import Frame, Journal, Writer
from tapewire.journal.errors import StreamNotFound

from . import reference
from .conftest import PAGE_BYTES, scratch

STREAMS = ("md", "td", "strategy", "ledger")


def write(run: Path, steps: list[tuple[int, int]], streams: int, writers: int = 1) -> None:
    """Frames of `steps` = (stream, payload bytes), by `writers` writers of each stream in turn."""
    share = len(steps) // writers + 1
    for epoch in range(writers):
        open_ = [Writer(run, name, i + 1, page_bytes=PAGE_BYTES) for i, name in enumerate(STREAMS[:streams])]
        for stream, size in steps[epoch * share : (epoch + 1) * share]:
            open_[stream % streams].append("user", bytes(size))
        for writer in open_:
            writer.close()


def reference_stream(run: Path, stream: str) -> list[reference.Frame]:
    return [
        frame
        for path in sorted((run / "journal" / stream).glob("*.page"))
        for frame in reference.decode_page(path.read_bytes()).frames
    ]


def key(frame: Frame | reference.Frame) -> tuple[int, int, int, int]:
    return frame.epoch, frame.gen_time, frame.stream_id, frame.seq


steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9000)), max_size=60)


@given(steps=steps, streams=st.integers(1, 4), writers=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_one_order_however_streams_are_named(
    steps: list[tuple[int, int]], streams: int, writers: int
) -> None:
    with scratch() as run:
        write(run, steps, streams, writers)
        expected = [key(f) for f in reference.merge(reference_stream(run, s) for s in STREAMS[:streams])]
        assert expected == sorted(expected)
        for names in permutations(STREAMS[:streams]):
            with Journal.open(run).reader(names) as reader:
                assert [key(f) for f in reader] == expected
        with Journal.open(run).reader(reversed(STREAMS[:streams])) as reader:
            batches = list(reader.batches(7))
        assert [int(s) for b in batches for s in b.headers["seq"]] == [seq for *_, seq in expected]


def test_streams_named_twice_are_read_once(tmp_path: Path) -> None:
    write(tmp_path, [(0, 8), (1, 8)], 2)
    with Journal.open(tmp_path).reader(["md", "td", "md"]) as reader:
        assert len(list(reader)) == 2
    with pytest.raises(StreamNotFound) as error:
        Journal.open(tmp_path).reader(["md", "tb"])
    assert "md, td" in str(error.value)


@given(sizes=st.lists(st.integers(0, 12_000), min_size=1, max_size=60), data=st.data())
@settings(max_examples=40, deadline=None)
def test_seek_equals_a_linear_scan(sizes: list[int], data: st.DataObject) -> None:
    with scratch() as run:
        write(run, [(0, size) for size in sizes], 1, writers=data.draw(st.integers(1, 3)))
        frames = reference_stream(run, "md")
        pages = [reference.decode_header(p.read_bytes()) for p in sorted((run / "journal/md").glob("*.page"))]
        journal = Journal.open(run)
        boundaries = [(p.first_seq, p.first_time) for p in pages if p.started]
        seqs = {0, 1, len(frames), len(frames) + 1, 2**63}
        times = {0, 2**62}
        for seq, time in boundaries:
            seqs |= {max(seq - 1, 0), seq, seq + 1}
            times |= {time - 1, time, time + 1}
        for frame in frames:
            times |= {frame.gen_time - 1, frame.gen_time, frame.gen_time + 1}
        for seq in seqs:
            with journal.reader(from_seq=seq) as reader:
                assert [f.seq for f in reader] == [f.seq for f in frames if f.seq >= seq]
        with journal.reader() as reader:  # one reader, back and forth
            for time in data.draw(st.permutations(sorted(times)))[:80]:
                reader.seek(time_ns=time)
                found = reader.read()
                expected = next((f.seq for f in frames if f.gen_time >= time), None)
                assert (found.seq if found else None) == expected


def test_seek_moves_every_stream(tmp_path: Path) -> None:
    rng = random.Random(7)
    write(tmp_path, [(rng.randrange(3), rng.randrange(3000)) for _ in range(300)], 3)
    journal = Journal.open(tmp_path)
    with journal.reader() as reader:
        frames = list(reader)
        middle = frames[len(frames) // 2]
        reader.seek(time_ns=middle.gen_time)
        assert [key(f) for f in reader] == [key(f) for f in frames if f.gen_time >= middle.gen_time]
        reader.seek(seq=20)
        assert sorted(key(f) for f in reader) == sorted(key(f) for f in frames if f.seq >= 20)


def test_seek_takes_one_of_two(tmp_path: Path) -> None:
    write(tmp_path, [(0, 8)], 1)
    with Journal.open(tmp_path).reader() as reader:
        for arguments in ({}, {"seq": 1, "time_ns": 1}):
            with pytest.raises(ValueError, match="one of them"):
                reader.seek(**arguments)


def test_reader_goes_on_where_the_writer_does(tmp_path: Path) -> None:
    writer = Writer(tmp_path, "md", 1, page_bytes=PAGE_BYTES)
    with writer, Journal.open(tmp_path).reader() as reader:
        assert reader.read() is None
        for seq in range(1, 300):
            writer.append("user", bytes(1000))
            frame = reader.read()
            assert frame is not None
            assert frame.seq == seq
            assert reader.read() is None
            assert len(reader.read_batch()) == 0


def test_frames_and_batches_outlive_their_reader(tmp_path: Path) -> None:
    with Writer(tmp_path, "md", 1, page_bytes=PAGE_BYTES) as writer:
        for i in range(200):
            writer.append("timer", timer_id=i)
    reader = Journal.open(tmp_path).reader()
    frames = [frame for frame, _ in zip(reader, range(100), strict=False)]
    batch = reader.read_batch()
    reader.close()
    for path in (tmp_path / "journal" / "md").iterdir():
        path.unlink()
    assert [int.from_bytes(f.payload[:8], "little") for f in frames] == list(range(100))
    assert batch.rows("timer")["timer_id"].tolist() == list(range(101, 200))
    with pytest.raises(ValueError, match="closed"):
        reader.read()
