#!/usr/bin/env python3
"""Make the golden pages of journal format version 1, the broken ones included.

    python scripts/make_golden_pages.py [DIRECTORY]        writes them (default tests/data/journal_v1)

Each is a run directory with one stream of one page of 64 KiB, so that every tool can open it. The bytes are
put together here from docs/journal-format.md, with no code of tapewire, and are the same every time:

    clean           two of every frame type, payloads of every padding, causes and roots, ended by a page_end
    torn_tail       the same frames without the page_end; of the last one only the first 100 bytes arrived
    zero_page       a page of zeros, as a file system may leave behind that never wrote what it allocated
    future_version  clean, but of version 2

A change of the format is a new version: it gets its own directory and leaves these alone.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

PAGE_BYTES = 65_536
RUN_ID = 0x7461706577697265
STREAM = b"md"
STREAM_ID = 1
FIRST_TIME = 1_000_000_000_000
STEP_NS = 1_000_003
HERE = Path(__file__).resolve().parent.parent / "tests" / "data" / "journal_v1"

CONSUMED, TEXT, USER, PAGE_END = 9, 11, 1000, 65535


def crc32c(data: bytes) -> int:
    """CRC32C (RFC 3720), bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def payloads(n: int) -> list[tuple[int, bytes]]:
    """Every fixed payload once, in round `n`; its numbers differ, so that fields changed round would show."""
    exchange, receive = 1_723_161_253_000_000_000 + n, 1_723_161_253_004_000_500 + n
    price, quantity, order_id = 60_123_450_000_000 + n, 1_250_000_000 + n, STREAM_ID << 48 | 5 + n
    bids = [(price - i * 10_000_000, quantity + i) for i in range(10 - 3 * n)]
    asks = [(price + (i + 1) * 10_000_000, quantity + 50 + i) for i in range(9 - 3 * n)]
    levels = [
        number for side in (bids, asks) for level in side + [(0, 0)] * (10 - len(side)) for number in level
    ]
    return [
        (1, struct.pack("<qqQIHH40q", exchange, receive, 7_001 + n, 3, len(bids), len(asks), *levels)),
        (
            2,
            struct.pack(
                "<qqQI4xqqqq", exchange, receive, 7_002 + n, 3, price, quantity, price + 1, quantity + 1
            ),
        ),
        (3, struct.pack("<qqQIB3xqq", exchange, receive, 8_001 + n, 3, 1 + n, price, quantity)),
        (4, struct.pack("<QIBBBBqqQ", order_id, 3, 1, 2 - n, 1, 3 + n, price, quantity, 41 + n)),
        (
            5,
            struct.pack(
                "<QIBBHqqqqQQHB5x", order_id, 3, 5, 2 - n, 18, price, quantity, 7, 11, 41 + n, 91, 4, 1 + n
            ),
        ),
        (
            6,
            struct.pack(
                "<QQIBBHqqqqqQ", order_id, 61 + n, 3, 2 - n, 1 + n, 4, price, 7, 13, 17, -19 - n, 91 + n
            ),
        ),
        (7, struct.pack("<Qqq", 71 + n, FIRST_TIME + 5, FIRST_TIME + 9 + n)),
        (8, struct.pack("<B7xq", 1 + n, -exchange)),
        (10, struct.pack("<IH2xqqqqqqQ", 3, 5 + n, -quantity, price, -23, 29 + n, -31, price + 1, 37)),
        (12, struct.pack("<I4xQQ", 3, 7_003 + n, 7_010 + n)),
    ]


def frame(
    seq: int,
    type_: int,
    body: bytes,
    cause: tuple[int, int] = (0, 0),
    root: tuple[int, int, int] = (0, 0, 0),
) -> bytes:
    """A frame; cause = (stream, seq), root = (stream, seq, type), zeros for none."""
    pad = -len(body) % 8
    length = 56 + len(body) + pad
    rest = struct.pack(
        "<QqHHHBBQQHHHH",
        seq,
        FIRST_TIME + seq * STEP_NS,
        type_,
        1,
        STREAM_ID,
        pad,
        0,
        cause[1],
        root[1],
        cause[0],
        root[0],
        root[2],
        0,
    )
    rest += body + bytes(pad)
    size = struct.pack("<I", length)
    return size + struct.pack("<I", crc32c(size + rest)) + rest


def frames() -> list[bytes]:
    """The frames of the clean page."""
    made: list[bytes] = []

    def add(
        type_: int, body: bytes, cause: tuple[int, int] = (0, 0), root: tuple[int, int, int] = (0, 0, 0)
    ) -> None:
        made.append(frame(len(made) + 1, type_, body, cause, root))

    for round_ in range(2):
        for type_, body in payloads(round_):
            add(type_, body, (STREAM_ID, len(made)) if made else (0, 0), (2, 77 + round_, 1))
        for entries in (1, 3):
            add(
                CONSUMED,
                b"".join(struct.pack("<QII", 100 * i + round_, i, 5 + i) for i in range(1, entries + 1)),
            )
    add(TEXT, "spread widened to 3 ticks, ± 1".encode())
    add(TEXT, b"")
    for size in range(9):
        add(USER + size, bytes(0xF0 + i for i in range(size)))
    add(65_534, bytes(range(256)))
    return made


def header(version: int = 1) -> bytes:
    """The header of page 1, started."""
    fixed = struct.pack(
        "<8sIIQQIIQ32s", b"TAPWIRE1", version, 128, PAGE_BYTES, 1, STREAM_ID, 0, RUN_ID, STREAM
    )
    start = struct.pack("<QqqII", 1, FIRST_TIME, FIRST_TIME, 1, 0)
    return fixed + struct.pack("<II", crc32c(fixed), 0) + start + struct.pack("<Q", 1 | crc32c(start) << 32)


def pages() -> dict[str, bytes]:
    """Every golden page by name."""
    whole = frames()
    end = frame(len(whole) + 1, PAGE_END, b"")
    torn = b"".join(whole[:-1]) + whole[-1][:100]
    return {
        "clean": (header() + b"".join(whole) + end).ljust(PAGE_BYTES, b"\0"),
        "torn_tail": (header() + torn).ljust(PAGE_BYTES, b"\0"),
        "zero_page": bytes(PAGE_BYTES),
        "future_version": (header(version=2) + b"".join(whole) + end).ljust(PAGE_BYTES, b"\0"),
    }


def main(arguments: list[str]) -> int:
    directory = Path(arguments[0]) if arguments else HERE
    for name, data in pages().items():
        path = directory / name / "journal" / STREAM.decode() / "00000001.page"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        print(f"{path}: {len(data)} bytes, {len(data.rstrip(bytes(1)))} used")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
