"""Which frames of a journal a command is about: the filters of `tapewire journal`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from ..journal import Frame, Journal, MergedReader
from ..journal.errors import JournalUsage
from ..journal.format import TYPE_IDS, FrameType, type_id
from ..runtime.environment import ClockAnchor
from ..runtime.errors import ConfigError
from ..runtime.policies import choice_hint
from .common import parse_utc

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Selection:
    """Streams and types (None: all), and inclusive bounds: seq in each stream, gen_time in ns."""

    streams: tuple[str, ...] | None = None
    types: tuple[int, ...] | None = None
    from_seq: int | None = None
    to_seq: int | None = None
    from_time: int | None = None
    to_time: int | None = None

    def open(self, journal: Journal) -> MergedReader:
        """A merged reader at the first frame that may be wanted."""
        reader = journal.reader(self.streams, self.types)
        if self.from_seq is not None:
            reader.seek(seq=self.from_seq)
        elif self.from_time is not None:
            reader.seek(time_ns=self.from_time)
        return reader

    def wants(self, frame: Frame) -> bool:
        """Whether the frame is inside the bounds."""
        if self.from_seq is not None and frame.seq < self.from_seq:
            return False
        if self.to_seq is not None and frame.seq > self.to_seq:
            return False
        if self.from_time is not None and frame.gen_time < self.from_time:
            return False
        return self.to_time is None or frame.gen_time <= self.to_time

    def frames(self, reader: MergedReader) -> Iterator[Frame]:
        """The wanted frames, in order; stops early where nothing wanted can come any more."""
        past: set[str | int] = set()
        for frame in reader:
            if self.wants(frame):
                yield frame
            elif self.to_time is not None and frame.gen_time > self.to_time:
                return  # frames come in the order of their time
            elif self.to_seq is not None and frame.seq > self.to_seq:
                past.add(frame.stream_id)
                if len(past) == len(reader.streams):
                    return


def selection_options(function: Function) -> Function:
    """`--stream`, `--type`, `--from-seq`, `--to-seq`, `--from-time`, `--to-time`."""
    number = click.IntRange(min=0)
    time_help = "UTC (2024-08-08T23:54:13.5Z) or CLOCK_MONOTONIC ns."
    for option in (
        click.option("--to-time", metavar="TIME", help=f"Only frames up to then: {time_help}"),
        click.option("--from-time", metavar="TIME", help=f"Only frames since then: {time_help}"),
        click.option("--to-seq", type=number, metavar="N", help="Only up to this seq in each stream."),
        click.option("--from-seq", type=number, metavar="N", help="Only from this seq in each stream."),
        click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this type; repeatable."),
        click.option("--stream", "streams", multiple=True, metavar="NAME", help="Only this; repeatable."),
    ):
        function = option(function)
    return function


def make_selection(
    clock: ClockAnchor,
    *,
    streams: tuple[str, ...],
    types: tuple[str, ...],
    from_seq: int | None,
    to_seq: int | None,
    from_time: str | None,
    to_time: str | None,
) -> Selection:
    """The options as a `Selection`; raises `ConfigError` for an unknown type and for what is no time."""
    return Selection(
        streams=streams or None,
        types=tuple(map(_type, types)) or None,
        from_seq=from_seq,
        to_seq=to_seq,
        from_time=_time(from_time, clock, "--from-time"),
        to_time=_time(to_time, clock, "--to-time"),
    )


def _type(name: str) -> int:
    try:
        return type_id(name)
    except JournalUsage:
        known = [known for known, number in TYPE_IDS.items() if number < FrameType.USER]
        raise ConfigError(
            f"unknown frame type {name!r}",
            where="--type",
            hint=f"{choice_hint(name, known)}, user1000 to user65534",
        ) from None


def _time(text: str | None, clock: ClockAnchor, option: str) -> int | None:
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    return clock.to_monotonic(parse_utc(text, option=option))
