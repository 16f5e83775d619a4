"""docs/journal-format.md against the native layouts: every offset, size, type and enumeration."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from tapewire import _native
from tapewire.journal import Recorder, Writer, format

from .conftest import PAGE_BYTES
from .reference import crc32c

DOC = (Path(__file__).parents[2] / "docs" / "journal-format.md").read_text()
NUMPY = {"u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8", "i64": "i8"}


def sections() -> dict[str, tuple[int | None, list[tuple[int, str, str]]]]:
    """By name in the heading: the size it gives, and the rows (offset, field, type) of its table."""
    found: dict[str, tuple[int | None, list[tuple[int, str, str]]]] = {}
    name, size, rows = "", None, list[tuple[int, str, str]]()
    for line in DOC.splitlines():
        if line.startswith("#"):
            name, size, rows = line.lstrip("# "), None, []
            if match := re.search(r"\(`(\w+)`, (\d+) bytes", line):
                name, size = match[1], int(match[2])
            found[name] = (size, rows)
        elif match := re.match(r"\| (\d+) \| (\w+) \| ([\w\[\]]+) \|", line):
            rows.append((int(match[1]), match[2], match[3]))
    return found


def numpy_format(type_: str) -> str:
    """The document's name of a type as numpy's."""
    if match := re.fullmatch(r"char\[(\d+)\]", type_):
        return f"S{match[1]}"
    if match := re.fullmatch(r"level\[(\d+)\]", type_):
        return f"({match[1]},2)i8"
    if match := re.fullmatch(r"(\w+)\[(\d+)\]", type_):
        return f"({match[2]},){NUMPY[match[1]]}"
    return NUMPY[type_]


def width(type_: str) -> int:
    return np.dtype(numpy_format(type_)).itemsize


@pytest.mark.parametrize("name", sorted(_native.layouts()))
def test_tables_are_the_native_layout(name: str) -> None:
    layout = _native.layouts()[name]
    size, rows = sections()[name]
    assert size == layout["size"]
    assert [(field, offset, numpy_format(type_)) for offset, field, type_ in rows] == [
        (field, offset, fmt) for field, offset, fmt in layout["fields"]
    ]


@pytest.mark.parametrize("name", [*sorted(_native.layouts()), "Watermark"])
def test_tables_leave_no_byte_out(name: str) -> None:
    size, rows = sections()[name]
    end = 0
    for offset, field, type_ in rows:
        assert offset == end, f"{name}.{field}"
        # Aligned on the size of what it is made of.
        assert offset % np.dtype(numpy_format(type_)).base.alignment == 0
        end += width(type_)
    assert end == (size or 64)


def test_types_and_payload_sizes() -> None:
    table = {
        name: (int(number), size)
        for number, name, size in re.findall(r"^\| (\d+) \| (\w+) \| ([\w ]+) \|$", DOC, re.MULTILINE)
    }
    assert {name: number for name, (number, _) in table.items()} == {
        name.lower(): number for name, number in _native.constants()["FrameType"].items()
    }
    for name, (_, size) in table.items():
        if size.isdigit():
            assert format.payload_bytes(name) == int(size)
        else:
            assert format.payload_bytes(name) == 0


def test_enumerations() -> None:
    fields = {
        "Side": "side, aggressor",
        "OrderAction": "action",
        "OrderType": "order_type",
        "TimeInForce": "time_in_force",
        "ReportStatus": "status",
        "Reason": "reason",
        "Liquidity": "liquidity",
        "LifecycleKind": "kind",
    }
    for enumeration, field in fields.items():
        match = re.search(rf"^\| {field} \| (.*) \|$", DOC, re.MULTILINE)
        assert match, field
        listed = {name.upper(): int(number) for number, name in re.findall(r"(\d+) (\w+)", match[1])}
        assert listed == _native.constants()[enumeration]
    assert set(fields) | {"FrameType"} == set(_native.constants())


@pytest.mark.parametrize("name", [n for n in _native.layouts() if n not in ("page_header", "consumed")])
def test_dtypes_have_the_native_offsets(name: str) -> None:
    layout = _native.layouts()[name]
    if name == "frame_header":
        dtype, at = format.header_dtype(), 0
    else:
        dtype, at = format.row_dtype(name), format.HEADER_BYTES
    assert dtype.itemsize == at + layout["size"]
    assert dtype.fields is not None
    for field, offset, fmt in layout["fields"]:
        if field.startswith("reserved"):
            assert field not in dtype.fields
            continue
        kind, found = dtype.fields[field][:2]
        assert found == at + offset, field
        assert kind == np.dtype(fmt).newbyteorder("<"), field


def test_page_header_dtype() -> None:
    fields = format.page_header_dtype().fields
    assert fields is not None
    for field, offset, _ in _native.layouts()["page_header"]["fields"]:
        if not field.startswith("reserved"):
            assert fields[field][1] == offset
    assert format.page_header_dtype().itemsize == format.PAGE_HEADER_BYTES == 128


def test_watermark_table(tmp_path: Path) -> None:
    with Writer(tmp_path / "live", "md", 1, page_bytes=PAGE_BYTES) as writer:
        for _ in range(3):
            writer.append("user", b"12345678")
        Recorder(tmp_path / "run", tmp_path / "live", ["md"]).finish()
    data = (tmp_path / "run" / "journal" / "md" / "watermark").read_bytes()
    rows = {field: offset for offset, field, _ in sections()["Watermark"][1]}
    slots = [data[at : at + 64] for at in (0, 512) if data[at : at + 8] == b"TAPWMRK1"]
    assert len(slots) == 1
    values = {field: struct.unpack_from("<Q", slots[0], offset)[0] for field, offset in rows.items()}
    assert values["generation"] == 1
    assert data.index(b"TAPWMRK1") == 512 * (values["generation"] % 2)
    assert (values["page"], values["offset"], values["seq"], values["synced"]) == (1, 128 + 3 * 64, 3, 1)
    assert values["reserved"] == 0
    assert values["crc"] == crc32c(slots[0][:56])


def test_control_and_counters_files(tmp_path: Path) -> None:
    control = _native.Control.create(str(tmp_path / "control"))
    control.request_stop(3, 2)
    control.mark_failed(4)
    data = (tmp_path / "control").read_bytes()
    assert len(data) == 6_208
    assert "`control` (6,208 bytes)" in DOC
    assert data[:8] == b"TAPWTRL1"
    assert struct.unpack_from("<I", data, 8)[0] == 1
    slots = 64 + 64 * 64
    assert struct.unpack_from("<II", data, slots + 3 * 64) == (2, 0)
    assert struct.unpack_from("<II", data, slots + 4 * 64) == (0, 1)

    counters = _native.Counters.create(str(tmp_path / "counters"), ["md", "strategy"])
    counters.block(1).set_consumed(5, 77)
    data = (tmp_path / "counters").read_bytes()
    assert len(data) == 64 + 2 * 1_472
    assert data[:8] == b"TAPWCNT1"
    assert struct.unpack_from("<IIQ", data, 8) == (1, 2, 1_472)
    block = data[64 + 1_472 :]
    assert block[:32].rstrip(b"\0") == b"strategy"
    assert struct.unpack_from("<Q", block, 32 + 32 + 48 * 8 + 5 * 8)[0] == 77


def test_constants_of_the_text() -> None:
    assert _native.FORMAT_VERSION == 1
    assert crc32c(b"123456789") == 0xE3069283
    assert "0xE3069283" in DOC
