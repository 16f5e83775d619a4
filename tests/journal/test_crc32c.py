"""CRC32C as Python sees it: RFC 3720's examples, and the plain definition on anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapewire._native import crc32c

from . import reference

ISCSI_READ = bytes.fromhex(
    "01c000000000000000000000000000001400000000000400000000140000001828000000000000000200000000000000"
)


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
        (ISCSI_READ, 0xD9963A56),
        (b"123456789", 0xE3069283),
        (b"", 0),
    ],
)
def test_known_values(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc
    assert reference.crc32c(data) == crc


@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
def test_any_bytes_from_any_start(data: bytes, start: int) -> None:
    assert crc32c(data, start) == reference.crc32c(data, start)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_continues(first: bytes, second: bytes) -> None:
    assert crc32c(second, crc32c(first)) == crc32c(first + second)
