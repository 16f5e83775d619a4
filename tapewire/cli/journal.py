"""`tapewire journal`: what a run recorded, while it runs or years later."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click
import rich_click

from ..journal import Frame, Journal, MergedReader
from ..journal.format import type_name
from ..runtime.manifest import Manifest
from ..runtime.rundir import find_run, runs_base
from .common import bytes_text, json_option, print_json, print_table, run_argument, runs_dir_option, utc_text
from .frames import FrameText
from .selection import Selection, make_selection, selection_options

_FOLLOW_S = 0.1


@click.group(cls=rich_click.RichGroup)
def journal() -> None:
    """Read what a run recorded, while it runs or afterwards.

    RUN is a run's name, its directory, or "last".

    \b
    tapewire journal ls last
    tapewire journal cat last --type fill
    tapewire journal tail last --follow
    """


@journal.command(cls=rich_click.RichCommand)
@run_argument
@runs_dir_option
@json_option
def ls(run: str, runs_dir: str | None, as_json: bool) -> None:
    """List the streams of RUN: pages, first and last frame, what is recorded on disk.

    \b
    tapewire journal ls last
    """
    opened, manifest, path = _open(run, runs_dir)
    kinds = {stream.name: stream for stream in manifest.streams}
    rows = []
    for name in opened.streams:
        pages = [opened.page(name, number) for number in _ends(opened.pages(name))]
        started = [page for page in pages if page["started"]]
        first = started[0]["first_seq"] if started else 0
        last = started[-1]["next_seq"] - 1 if started else 0
        known = kinds.get(name)
        rows.append(
            {
                "stream": name,
                "id": pages[0]["stream_id"],
                "process": known.process if known is not None else "",
                "kind": known.kind if known is not None else "",
                "pages": len(opened.pages(name)),
                "first_seq": first,
                "last_seq": last,
                "recorded_seq": _recorded(path, name),
                "clean": all(page["clean"] for page in started),
            }
        )
    if as_json:
        print_json(rows)
    else:
        headers = ("id", "stream", "process", "kind", "pages", "first_seq", "last_seq", "recorded_seq")
        table = [tuple(row[header] for header in headers) for row in rows]
        print_table(headers, table, right=("id", "pages", "first_seq", "last_seq", "recorded_seq"))


@journal.command(cls=rich_click.RichCommand)
@run_argument
@selection_options
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most that many frames.")
@runs_dir_option
@json_option
def cat(run: str, limit: int | None, runs_dir: str | None, as_json: bool, **filters: Any) -> None:
    """Print the frames of RUN in their total order, one a line; with --json as JSON lines.

    \b
    tapewire journal cat last --stream md --from-seq 100 --limit 10
    tapewire journal cat last --type order_report --type fill --json
    tapewire journal cat last --from-time 2024-08-08T23:54:13Z --to-time 2024-08-08T23:54:14Z
    """
    opened, manifest, _ = _open(run, runs_dir)
    selection = make_selection(manifest.clock, **filters)
    text = FrameText(manifest, opened.stream_names)
    with selection.open(opened) as reader:
        _print(islice(selection.frames(reader), limit), text, as_json)


@journal.command(cls=rich_click.RichCommand)
@run_argument
@selection_options
@click.option("-n", "--lines", type=click.IntRange(min=0), default=10, show_default=True, metavar="N")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run is over.")
@runs_dir_option
@json_option
def tail(run: str, lines: int, follow: bool, runs_dir: str | None, as_json: bool, **filters: Any) -> None:
    """Print the last frames of RUN, and with --follow those that come, until the run is over.

    \b
    tapewire journal tail last -n 20
    tapewire journal tail last --follow --type fill
    """
    opened, manifest, path = _open(run, runs_dir)
    selection = make_selection(manifest.clock, **filters)
    text = FrameText(manifest, opened.stream_names)
    readers, frames = _last(opened, selection, lines)
    _print(iter(frames), text, as_json)
    try:
        if follow:
            _follow(
                readers, selection, path, lambda frames: _print(iter(frames), text, as_json, headings=False)
            )
    finally:
        for reader in readers:
            reader.close()


@journal.command(cls=rich_click.RichCommand)
@run_argument
@selection_options
@runs_dir_option
@json_option
def stat(run: str, runs_dir: str | None, as_json: bool, **filters: Any) -> None:
    """Count the frames of RUN by stream and type: number, bytes, first and last, rate.

    \b
    tapewire journal stat last
    tapewire journal stat last --stream md --json
    """
    opened, manifest, _ = _open(run, runs_dir)
    selection = make_selection(manifest.clock, **filters)
    rows = list(_stat_rows(opened, selection, manifest.clock.offset_ns))
    if as_json:
        print_json(rows)
        return
    table = [
        (
            row["stream"],
            row["type"],
            row["frames"],
            bytes_text(row["size_bytes"]),
            row["first_seq"],
            row["last_seq"],
            row["first_time"],
            f"{row['span_s']:.3f}",
            f"{row['frames'] / row['span_s']:,.0f}" if row["span_s"] > 0 else "",
        )
        for row in rows
    ]
    headers = ("stream", "type", "frames", "size", "first", "last", "first time (UTC)", "span (s)", "per s")
    print_table(headers, table, right=("frames", "size", "first", "last", "span (s)", "per s"))


def _open(run: str, runs_dir: str | None) -> tuple[Journal, Manifest, Path]:
    found = find_run(run, runs_base(runs_dir))
    manifest = found.manifest()
    return Journal.open(found.path), manifest, found.path


def _print(frames: Iterator[Frame], text: FrameText, as_json: bool, *, headings: bool = True) -> None:
    if headings and not as_json:
        click.echo(text.headings())
    for frame in frames:
        click.echo(json.dumps(text.object(frame), ensure_ascii=False) if as_json else text.row(frame))


def _ends(pages: list[int]) -> list[int]:
    """The first page and the two last ones: the last one may be prepared only."""
    return sorted({*pages[:1], *pages[-2:]})


def _recorded(run_dir: Path, stream: str) -> int:
    from .. import _native

    mark = _native.read_watermark(str(run_dir / "journal" / stream / "watermark"))
    return 0 if mark is None else int(mark["seq"])


def _last(journal: Journal, selection: Selection, count: int) -> tuple[list[MergedReader], list[Frame]]:
    """The last `count` wanted frames over all streams, and a reader per stream that stands behind them."""
    readers: list[MergedReader] = []
    frames: list[Frame] = []
    for name in selection.streams or journal.streams:
        reader, found = _last_of(journal, selection, name, count)
        readers.append(reader)
        frames += found
    frames.sort(key=_order)
    return readers, frames[len(frames) - count :] if count < len(frames) else frames


def _last_of(
    journal: Journal, selection: Selection, name: str, count: int
) -> tuple[MergedReader, list[Frame]]:
    pages = (
        [journal.page(name, number) for number in _ends(journal.pages(name))]
        if name in journal.streams
        else []
    )
    started = [page for page in pages if page["started"]]
    first, last = (started[0]["first_seq"], started[-1]["next_seq"] - 1) if started else (1, 0)
    window = max(count, 1)
    while True:
        # Wanted frames may be rare: look further back until there are enough, or all have been seen.
        start = max(first, last - window + 1)
        reader = journal.reader([name], selection.types, from_seq=start)
        found = [frame for frame in reader if selection.wants(frame)]
        if len(found) >= count or start <= first:
            return reader, found[len(found) - count :] if count < len(found) else found
        reader.close()
        window *= 8


def _follow(
    readers: list[MergedReader], selection: Selection, run_dir: Path, show: Callable[[list[Frame]], None]
) -> None:
    over = False
    while True:
        frames = [frame for reader in readers for frame in reader if selection.wants(frame)]
        if frames:
            show(sorted(frames, key=_order))
        elif over:
            return
        else:
            time.sleep(_FOLLOW_S)
            over = Manifest.load(run_dir).ended  # then once more: the last frames came before that


def _order(frame: Frame) -> tuple[int, int, int, int]:
    return frame.epoch, frame.gen_time, frame.stream_id, frame.seq


def _stat_rows(journal: Journal, selection: Selection, offset_ns: int) -> Iterator[dict[str, Any]]:
    import numpy as np

    for name in selection.streams or journal.streams:
        headers = journal.headers([name])
        keep = np.ones(len(headers), dtype=bool)
        for bound, field, at_least in (
            (selection.from_seq, "seq", True),
            (selection.to_seq, "seq", False),
            (selection.from_time, "gen_time", True),
            (selection.to_time, "gen_time", False),
        ):
            if bound is not None:
                keep &= headers[field] >= bound if at_least else headers[field] <= bound
        headers = headers[keep]
        for number in np.unique(headers["type"]):
            if selection.types is not None and int(number) not in selection.types:
                continue
            rows = headers[headers["type"] == number]
            times = rows["gen_time"]
            yield {
                "stream": name,
                "type": type_name(int(number)),
                "frames": len(rows),
                "size_bytes": int(rows["length"].sum(dtype=np.int64)),
                "first_seq": int(rows["seq"][0]),
                "last_seq": int(rows["seq"][-1]),
                "first_time": utc_text(int(times[0]) + offset_ns),
                "last_time": utc_text(int(times[-1]) + offset_ns),
                "span_s": (int(times[-1]) - int(times[0])) / 1e9,
            }
