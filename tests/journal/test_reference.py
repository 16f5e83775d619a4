"""Random journals, read by the native readers and by the plain-Python reference: the same frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tapewire import _native
from tapewire.journal import Journal, Writer, decode, format

from . import reference
from .conftest import PAGE_BYTES, scratch

#: Frames without a fixed layout, by type and payload.
loose_frames = st.one_of(
    st.tuples(st.just("text"), st.text(max_size=40).map(str.encode)),
    st.tuples(st.sampled_from(["user", "user1001", "user65534"]), st.binary(max_size=300)),
    st.tuples(st.just("user"), st.integers(0, 20_000).map(bytes)),
    st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=32).map(
        lambda e: ("consumed", b"".join(e))
    ),
)
fixed_frames = st.sampled_from([t for t in format.TYPE_NAMES.values() if format.payload_bytes(t)]).flatmap(
    lambda t: st.tuples(
        st.just(t), st.binary(min_size=format.payload_bytes(t), max_size=format.payload_bytes(t))
    )
)
seqs = st.integers(1, 2**64 - 1)
streams = st.integers(1, 65535)
origins = st.one_of(
    st.just((None, None)),
    st.tuples(st.tuples(streams, seqs), st.tuples(streams, seqs, st.integers(0, 65535))),
)
frames = st.lists(st.tuples(st.one_of(loose_frames, fixed_frames), origins), max_size=40)


def reference_frames(run: Path, stream: str) -> list[reference.Frame]:
    """All frames of a stream, page after page."""
    found: list[reference.Frame] = []
    pages = sorted((run / "journal" / stream).glob("*.page"))
    for path in pages:
        page = reference.decode_page(path.read_bytes())
        assert page.header.page_number == int(path.stem)
        assert page.header.stream_name == stream
        assert page.header.first_seq == len(found) + 1
        assert page.ended_by == ("nothing yet" if path == pages[-1] else "page end")
        found += page.frames
        assert page.next_seq == len(found) + 1
    return found


def assert_same(ours: Any, theirs: reference.Frame) -> None:
    assert (ours.type, ours.schema, ours.seq, ours.gen_time) == (
        theirs.type,
        theirs.schema,
        theirs.seq,
        theirs.gen_time,
    )
    assert (ours.stream_id, ours.epoch, ours.root_type) == (theirs.stream_id, theirs.epoch, theirs.root_type)
    assert (ours.cause, ours.root, ours.payload) == (theirs.cause, theirs.root, theirs.payload)


def write(run: Path, writers: list[list[Any]]) -> None:
    """One writer after the other on the same stream, so one epoch after the other."""
    for epoch in writers:
        with Writer(run, "md", 7, run_id=11, page_bytes=PAGE_BYTES) as writer:
            for (type_, payload), (cause, root) in epoch:
                writer.append(type_, payload, cause=cause, root=root)


@given(writers=st.lists(frames, min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_frames(writers: list[list[Any]]) -> None:
    with scratch() as run:
        write(run, writers)
        expected = reference_frames(run, "md")
        assert [(f.type, f.payload) for f in expected] == [
            (format.type_id(t), p) for epoch in writers for (t, p), _ in epoch
        ]
        journal = Journal.open(run)
        with journal.reader() as reader:
            found = list(reader)
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            assert_same(ours, theirs)
            if theirs.type == format.FrameType.DEPTH:
                continue  # random level counts may be above 10: compared in test_depths
            if theirs.type != format.FrameType.TEXT:
                assert decode(ours) == reference.decode_payload(theirs.type, theirs.payload)
        assert journal.stream_names == {7: "md"}


@given(writers=st.lists(frames, min_size=1, max_size=2), batch=st.sampled_from([1, 3, 1000]))
@settings(max_examples=30, deadline=None)
def test_batches(writers: list[list[Any]], batch: int) -> None:
    with scratch() as run:
        write(run, writers)
        expected = reference_frames(run, "md")
        with Journal.open(run).reader() as reader:
            batches = list(reader.batches(batch))
        assert all(len(b) <= batch for b in batches)
        headers = (
            np.concatenate([b.headers for b in batches]) if batches else np.empty(0, format.header_dtype())
        )
        assert headers["seq"].tolist() == [f.seq for f in expected]
        assert headers["type"].tolist() == [f.type for f in expected]
        assert headers["length"].tolist() == [f.length for f in expected]
        assert headers["gen_time"].tolist() == [f.gen_time for f in expected]
        assert headers["cause_seq"].tolist() == [f.cause[1] if f.cause else 0 for f in expected]
        assert headers["root_stream"].tolist() == [f.root[0] if f.root else 0 for f in expected]
        assert np.array_equal(Journal.open(run).headers(), headers)
        for number, name in format.TYPE_NAMES.items():
            if not format.payload_bytes(name):
                continue
            wanted = [f for f in expected if f.type == number]
            rows = [b.rows(name) for b in batches]
            assert sum(map(len, rows)) == len(wanted)
            if not wanted:
                continue
            merged = np.concatenate(rows)
            assert merged["seq"].tolist() == [f.seq for f in wanted]
            names = [n for n, _, _ in _native.layouts()[name]["fields"] if not n.startswith("reserved")]
            for row, frame in zip(merged, wanted, strict=True):
                if number == format.FrameType.DEPTH:
                    assert row["bids"].tobytes() + row["asks"].tobytes() == frame.payload[32:]
                    continue
                fields = reference.decode_payload(number, frame.payload)
                assert {n: row[n].item() for n in names} == fields


levels = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), max_size=10)


@given(books=st.lists(st.tuples(levels, levels), min_size=1, max_size=10))
@settings(max_examples=30, deadline=None)
def test_depths(books: list[tuple[list[Any], list[Any]]]) -> None:
    with scratch() as run:
        with Writer(run, "md", 7, page_bytes=PAGE_BYTES) as writer:
            for bids, asks in books:
                empty = [(0, 0)]
                writer.append(
                    "depth",
                    instrument_id=1,
                    bid_count=len(bids),
                    ask_count=len(asks),
                    bids=bids + empty * (10 - len(bids)),  # type: ignore[arg-type]
                    asks=asks + empty * (10 - len(asks)),  # type: ignore[arg-type]
                )
        with Journal.open(run).reader() as reader:
            for frame, theirs, (bids, asks) in zip(reader, reference_frames(run, "md"), books, strict=True):
                fields = decode(frame)
                assert fields == reference.decode_payload(theirs.type, theirs.payload)
                assert fields["bids"] == [list(level) for level in bids]
                assert fields["asks"] == [list(level) for level in asks]


@given(
    writers=st.lists(frames, min_size=1, max_size=2), types=st.sets(st.sampled_from(["text", "user", "fill"]))
)
@settings(max_examples=20, deadline=None)
def test_types_are_filtered(writers: list[list[Any]], types: set[str]) -> None:
    with scratch() as run:
        write(run, writers)
        numbers = {format.type_id(t) for t in types}
        with Journal.open(run).reader(types=sorted(types)) as reader:
            assert [f.seq for f in reader] == [
                f.seq for f in reference_frames(run, "md") if f.type in numbers
            ]
