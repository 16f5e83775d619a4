"""A reader of the journal format in plain Python, written from docs/journal-format.md and nothing else.

It shares no code with tapewire, so whatever both agree on is what the document says.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAGIC = b"TAPWIRE1"
VERSION = 1
PAGE_HEADER_BYTES = 128
HEADER_BYTES = 56
PAGE_END = 65535

#: Payload layouts of the document: struct format and field names, reserved bytes skipped.
PAYLOADS: dict[int, tuple[str, str]] = {
    1: (
        "<qqQIHH20q20q",
        "exchange_time receive_time update_id instrument_id bid_count ask_count",
    ),
    2: (
        "<qqQI4xqqqq",
        "exchange_time receive_time update_id instrument_id bid_price bid_quantity ask_price ask_quantity",
    ),
    3: ("<qqQIB3xqq", "exchange_time receive_time trade_id instrument_id aggressor price quantity"),
    4: (
        "<QIBBBBqqQ",
        "order_id instrument_id action side order_type time_in_force price quantity request_id",
    ),
    5: (
        "<QIBBHqqqqQQHB5x",
        "order_id instrument_id status side reason price quantity filled leaves request_id book_seq "
        "book_stream action",
    ),
    6: (
        "<QQIBBHqqqqqQ",
        "order_id exec_id instrument_id side liquidity book_stream price quantity filled leaves fee book_seq",
    ),
    7: ("<Qqq", "timer_id due_time fire_time"),
    8: ("<B7xq", "kind event_time"),
    10: (
        "<IH2xqqqqqqQ",
        "instrument_id strategy_stream quantity average_price realised unrealised fees mark_price fills",
    ),
    12: ("<I4xQQ", "instrument_id expected found"),
}


class NotAPage(Exception):
    """The bytes are no page of this format; the first argument says which check failed."""


def crc32c(data: bytes, crc: int = 0) -> int:
    """CRC32C bit by bit, continuing `crc`."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@dataclass(frozen=True)
class PageHeader:
    """A page header, checked."""

    page_bytes: int
    page_number: int
    stream_id: int
    run_id: int
    stream_name: str
    first_seq: int
    first_time: int
    epoch: int
    started: bool


@dataclass(frozen=True)
class Frame:
    """A committed frame, checked."""

    stream_id: int
    seq: int
    gen_time: int
    type: int
    schema: int
    cause: tuple[int, int] | None
    root: tuple[int, int] | None
    root_type: int
    payload: bytes
    epoch: int
    offset: int
    length: int


@dataclass(frozen=True)
class Page:
    """The longest valid prefix of a page, and the rule that ended it."""

    header: PageHeader
    frames: tuple[Frame, ...]
    ended_by: str
    end: int
    next_seq: int


def decode_header(data: bytes) -> PageHeader:
    """The header of a page. Raises NotAPage("magic" | "version" | "header" | "start")."""
    if len(data) < PAGE_HEADER_BYTES or data[:8] != MAGIC:
        raise NotAPage("magic")
    version, header_bytes, page_bytes, number, stream_id, zero0, run_id = struct.unpack_from(
        "<IIQQIIQ", data, 8
    )
    if version != VERSION:
        raise NotAPage("version")
    name, static_crc, zero1 = struct.unpack_from("<32sII", data, 48)
    if crc32c(data[:80]) != static_crc or zero0 or zero1:
        raise NotAPage("header")
    if header_bytes != PAGE_HEADER_BYTES or not 1 <= stream_id <= 63 or not 65536 <= page_bytes <= 1 << 30:
        raise NotAPage("header")
    first_seq, first_time, _, epoch, zero2, start_word = struct.unpack_from("<QqqIIQ", data, 88)
    started = start_word != 0
    if started and (start_word != 1 | crc32c(data[88:120]) << 32 or zero2 or not first_seq):
        raise NotAPage("start")
    return PageHeader(
        page_bytes,
        number,
        stream_id,
        run_id,
        name.rstrip(b"\0").decode(),
        first_seq,
        first_time,
        epoch,
        started,
    )


def decode_page(data: bytes) -> Page:
    """Everything of a page that is good. Raises NotAPage where the header is not."""
    header = decode_header(data)
    frames: list[Frame] = []
    at = PAGE_HEADER_BYTES
    seq = header.first_seq
    if not header.started:
        return Page(header, (), "prepared", at, seq)

    def ended(by: str) -> Page:
        return Page(header, tuple(frames), by, at, seq)

    while True:
        if at + 8 > len(data):
            return ended("cut off")
        length, crc = struct.unpack_from("<II", data, at)
        if not length and not crc:
            return ended("nothing yet" if len(data) >= header.page_bytes else "cut off")
        if length < HEADER_BYTES or length % 8 or at + length > header.page_bytes:
            return ended("length")
        if at + length > len(data):
            return ended("cut off")
        if crc32c(data[at : at + 4] + data[at + 8 : at + length]) != crc:
            return ended("crc")
        (
            found,
            gen_time,
            type_,
            schema,
            stream_id,
            pad,
            zero0,
            cause_seq,
            root_seq,
            cause,
            root,
            root_type,
            zero1,
        ) = struct.unpack_from("<QqHHHBBQQHHHH", data, at + 8)
        if (
            pad > 7
            or pad > length - HEADER_BYTES
            or any(data[at + length - pad : at + length])
            or zero0
            or zero1
        ):
            return ended("padding")
        if stream_id != header.stream_id:
            return ended("stream")
        if found != seq:
            return ended("seq")
        if type_ == PAGE_END:
            if len(data) < header.page_bytes:
                return ended("cut off")
            return ended("tail" if any(data[at + length :]) else "page end")
        frames.append(
            Frame(
                stream_id,
                seq,
                gen_time,
                type_,
                schema,
                (cause, cause_seq) if cause else None,
                (root, root_seq) if root else None,
                root_type,
                data[at + HEADER_BYTES : at + length - pad],
                header.epoch,
                at,
                length,
            )
        )
        at += length
        seq += 1


def merge(streams: Iterable[Sequence[Frame]]) -> list[Frame]:
    """Streams merged by (epoch, gen_time, stream id, seq), each kept in its own order."""
    waiting = [list(frames) for frames in streams if frames]
    merged: list[Frame] = []
    while waiting:
        first = min(waiting, key=lambda s: (s[0].epoch, s[0].gen_time, s[0].stream_id, s[0].seq))
        merged.append(first.pop(0))
        waiting = [frames for frames in waiting if frames]
    return merged


def decode_payload(type_: int, payload: bytes) -> dict[str, object]:
    """The fields of a payload, named as in the document; levels in use as [price, quantity] lists."""
    if type_ == 9:
        keys = ("up_to_seq", "stream_id", "frames")
        return {
            "entries": [dict(zip(keys, entry, strict=True)) for entry in struct.iter_unpack("<QII", payload)]
        }
    if type_ == 11:
        return {"text": payload.decode()}
    if type_ not in PAYLOADS:
        return {"payload": payload}
    layout, names = PAYLOADS[type_]
    values = struct.unpack(layout, payload)
    fields: dict[str, object] = dict(zip(names.split(), values, strict=False))
    if type_ == 1:
        levels = [list(values[i : i + 2]) for i in range(6, 46, 2)]
        fields["bids"] = levels[: values[4]]
        fields["asks"] = levels[10 : 10 + values[5]]
        del fields["bid_count"], fields["ask_count"]
    return fields
