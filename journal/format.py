"""The byte layout of format version 1, taken from the native core: enumerations, dtypes, decoding.

docs/journal-format.md shows the bytes; native/journal/format.hpp defines them. Nothing here repeats a
number: the dtypes are built from the offsets that the native structs really have.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from .. import _native
from .errors import JournalUsage

if TYPE_CHECKING:
    import numpy as np

_CONSTANTS = _native.constants()
_LAYOUTS = _native.layouts()

FORMAT_VERSION: int = _native.FORMAT_VERSION
DEPTH_LEVELS: int = _native.DEPTH_LEVELS
HEADER_BYTES: int = _LAYOUTS["frame_header"]["size"]
PAGE_HEADER_BYTES: int = _LAYOUTS["page_header"]["size"]
USER_TYPES = range(_CONSTANTS["FrameType"]["USER"], _CONSTANTS["FrameType"]["PAGE_END"])


class FrameType(IntEnum):
    """What a frame holds. 1000 to 65534 are a user's own."""

    DEPTH = _CONSTANTS["FrameType"]["DEPTH"]
    BOOK_TICKER = _CONSTANTS["FrameType"]["BOOK_TICKER"]
    TRADE = _CONSTANTS["FrameType"]["TRADE"]
    ORDER_INPUT = _CONSTANTS["FrameType"]["ORDER_INPUT"]
    ORDER_REPORT = _CONSTANTS["FrameType"]["ORDER_REPORT"]
    FILL = _CONSTANTS["FrameType"]["FILL"]
    TIMER = _CONSTANTS["FrameType"]["TIMER"]
    LIFECYCLE = _CONSTANTS["FrameType"]["LIFECYCLE"]
    CONSUMED = _CONSTANTS["FrameType"]["CONSUMED"]
    POSITION = _CONSTANTS["FrameType"]["POSITION"]
    TEXT = _CONSTANTS["FrameType"]["TEXT"]
    FEED_GAP = _CONSTANTS["FrameType"]["FEED_GAP"]
    USER = _CONSTANTS["FrameType"]["USER"]
    PAGE_END = _CONSTANTS["FrameType"]["PAGE_END"]


class Side(IntEnum):
    """Side of an order or of a trade's aggressor."""

    NONE = _CONSTANTS["Side"]["NONE"]
    BUY = _CONSTANTS["Side"]["BUY"]
    SELL = _CONSTANTS["Side"]["SELL"]


class OrderAction(IntEnum):
    """What an OrderInput asks for."""

    NEW = _CONSTANTS["OrderAction"]["NEW"]
    REPLACE = _CONSTANTS["OrderAction"]["REPLACE"]
    CANCEL = _CONSTANTS["OrderAction"]["CANCEL"]


class OrderType(IntEnum):
    """Limit or market."""

    LIMIT = _CONSTANTS["OrderType"]["LIMIT"]
    MARKET = _CONSTANTS["OrderType"]["MARKET"]


class TimeInForce(IntEnum):
    """How long an order lasts (FIX tag 59 values)."""

    GTC = _CONSTANTS["TimeInForce"]["GTC"]
    IOC = _CONSTANTS["TimeInForce"]["IOC"]
    FOK = _CONSTANTS["TimeInForce"]["FOK"]


class ReportStatus(IntEnum):
    """What an OrderReport says."""

    ACCEPTED = _CONSTANTS["ReportStatus"]["ACCEPTED"]
    REJECTED = _CONSTANTS["ReportStatus"]["REJECTED"]
    REPLACED = _CONSTANTS["ReportStatus"]["REPLACED"]
    CANCELLED = _CONSTANTS["ReportStatus"]["CANCELLED"]
    EXPIRED = _CONSTANTS["ReportStatus"]["EXPIRED"]


class Reason(IntEnum):
    """Why a request was refused, or an order ended."""

    NONE = _CONSTANTS["Reason"]["NONE"]
    UNKNOWN_INSTRUMENT = _CONSTANTS["Reason"]["UNKNOWN_INSTRUMENT"]
    OFF_TICK = _CONSTANTS["Reason"]["OFF_TICK"]
    OFF_LOT = _CONSTANTS["Reason"]["OFF_LOT"]
    BAD_QUANTITY = _CONSTANTS["Reason"]["BAD_QUANTITY"]
    BAD_PRICE = _CONSTANTS["Reason"]["BAD_PRICE"]
    NO_MARKET = _CONSTANTS["Reason"]["NO_MARKET"]
    UNKNOWN_ORDER = _CONSTANTS["Reason"]["UNKNOWN_ORDER"]
    DUPLICATE_ORDER = _CONSTANTS["Reason"]["DUPLICATE_ORDER"]
    ORDER_DONE = _CONSTANTS["Reason"]["ORDER_DONE"]
    THROTTLED = _CONSTANTS["Reason"]["THROTTLED"]
    MAX_POSITION = _CONSTANTS["Reason"]["MAX_POSITION"]
    CAPACITY = _CONSTANTS["Reason"]["CAPACITY"]
    OVERFLOW = _CONSTANTS["Reason"]["OVERFLOW"]
    UNSUPPORTED = _CONSTANTS["Reason"]["UNSUPPORTED"]
    STRATEGY_FAILED = _CONSTANTS["Reason"]["STRATEGY_FAILED"]
    REQUESTED = _CONSTANTS["Reason"]["REQUESTED"]
    NOT_FILLABLE = _CONSTANTS["Reason"]["NOT_FILLABLE"]


class Liquidity(IntEnum):
    """Whether a fill made or took liquidity."""

    MAKER = _CONSTANTS["Liquidity"]["MAKER"]
    TAKER = _CONSTANTS["Liquidity"]["TAKER"]


class LifecycleKind(IntEnum):
    """What a Lifecycle frame marks."""

    START = _CONSTANTS["LifecycleKind"]["START"]
    STOP = _CONSTANTS["LifecycleKind"]["STOP"]
    END_OF_INPUT = _CONSTANTS["LifecycleKind"]["END_OF_INPUT"]
    FAILED = _CONSTANTS["LifecycleKind"]["FAILED"]


TYPE_NAMES: dict[int, str] = {int(t): t.name.lower() for t in FrameType}
TYPE_IDS: dict[str, int] = {name: number for number, name in TYPE_NAMES.items()}

#: Fields whose numbers are members of an enumeration, for people.
ENUM_FIELDS: dict[str, type[IntEnum]] = {
    "side": Side,
    "aggressor": Side,
    "action": OrderAction,
    "order_type": OrderType,
    "time_in_force": TimeInForce,
    "status": ReportStatus,
    "reason": Reason,
    "liquidity": Liquidity,
}


def type_name(number: int) -> str:
    """`depth`, `order_input`, …; a user's own type is `user1000` and so on."""
    if number in TYPE_NAMES and number != FrameType.USER:
        return TYPE_NAMES[number]
    return f"user{number}" if number in USER_TYPES else f"unknown{number}"


def type_id(name: str | int) -> int:
    """The number of a type given by name, `FrameType` or number. Raises JournalUsage with the known names."""
    if isinstance(name, int):
        return int(name)
    if name in TYPE_IDS:
        return TYPE_IDS[name]
    if name.startswith("user") and name[4:].isdigit() and int(name[4:]) in USER_TYPES:
        return int(name[4:])
    raise JournalUsage(
        f"no frame type {name!r}; the types are {', '.join(TYPE_IDS)} and user1000 to user65534"
    )


def payload_bytes(type_: str | int) -> int:
    """Bytes of a fixed payload; 0 for text, user and other frames without a fixed layout."""
    layout = _LAYOUTS.get(TYPE_NAMES.get(type_id(type_), ""))
    return 0 if layout is None or type_id(type_) == FrameType.CONSUMED else int(layout["size"])


def _fields(name: str, at: int) -> list[tuple[str, str, int]]:
    return [
        (field, f"<{fmt}" if fmt[0] in "ui" else fmt, at + offset)
        for field, offset, fmt in _LAYOUTS[name]["fields"]
    ]


def _dtype(fields: list[tuple[str, str, int]], itemsize: int) -> np.dtype[Any]:
    import numpy as np

    # Reserved bytes stay in the item, without a name.
    shown = [f for f in fields if not f[0].startswith("reserved")]
    return np.dtype(
        {
            "names": [f[0] for f in shown],
            "formats": [f[1] for f in shown],
            "offsets": [f[2] for f in shown],
            "itemsize": itemsize,
        }
    )


@cache
def header_dtype() -> np.dtype[Any]:
    """Numpy dtype of a frame header, 56 bytes."""
    return _dtype(_fields("frame_header", 0), HEADER_BYTES)


@cache
def page_header_dtype() -> np.dtype[Any]:
    """Numpy dtype of a page header, 128 bytes."""
    return _dtype(_fields("page_header", 0), PAGE_HEADER_BYTES)


@cache
def row_dtype(type_: str | int) -> np.dtype[Any]:
    """Numpy dtype of a whole frame of a fixed type: the header's fields, then the payload's.

    Depth levels are one field `bids` and `asks` of shape (10, 2): price, quantity.
    """
    number = type_id(type_)
    size = payload_bytes(number)
    if size == 0:
        raise JournalUsage(f"{type_name(number)} frames have no fixed layout; read them one by one")
    fields = _fields("frame_header", 0) + _fields(TYPE_NAMES[number], HEADER_BYTES)
    return _dtype(fields, HEADER_BYTES + size)


@cache
def _unpacker(number: int) -> tuple[struct.Struct, tuple[tuple[str, int, str], ...]]:
    """One struct for all scalar fields of a payload, and how the values are named."""
    layout = _LAYOUTS[TYPE_NAMES[number]]
    codes = {"u1": "B", "u2": "H", "u4": "I", "u8": "Q", "i8": "q", "i4": "i"}
    pattern = ["<"]
    at = 0
    plan: list[tuple[str, int, str]] = []
    for field, offset, fmt in layout["fields"]:
        if offset > at:
            pattern.append(f"{offset - at}x")
        count, code = 1, fmt
        if fmt.startswith("("):
            shape, code = fmt[1:].split(")")
            for part in shape.split(","):
                count *= int(part) if part else 1
        size = int(code[1]) * count
        if field.startswith("reserved"):
            pattern.append(f"{size}x")
        else:
            pattern.append(f"{count}{codes[code]}")
            plan.append((field, count, code))
        at = offset + size
    return struct.Struct("".join(pattern)), tuple(plan)


def decode_payload(number: int, payload: bytes) -> dict[str, Any]:
    """Field values of a payload: ints; `bids`/`asks` as lists of [price, quantity] of the levels in use;
    `text` for text frames, `entries` for consumption records, `payload` (bytes) for what has no layout."""
    if number == FrameType.TEXT:
        return {"text": payload.decode("utf-8", "replace")}
    if number == FrameType.CONSUMED:
        entry = struct.Struct("<QII")
        return {
            "entries": [
                {"stream_id": stream, "up_to_seq": up_to, "frames": frames}
                for up_to, stream, frames in entry.iter_unpack(payload[: len(payload) // 16 * 16])
            ]
        }
    if payload_bytes(number) == 0:
        return {"payload": payload}
    unpack, plan = _unpacker(number)
    values = unpack.unpack_from(payload)
    result: dict[str, Any] = {}
    i = 0
    for field, count, _ in plan:
        if count == 1:
            result[field] = values[i]
        else:
            result[field] = [[values[k], values[k + 1]] for k in range(i, i + count, 2)]
        i += count
    for side, used in (("bids", "bid_count"), ("asks", "ask_count")):
        if side in result:
            result[side] = result[side][: result.pop(used)]
    return result


def encode_payload(type_: str | int, **values: int) -> bytes:
    """Payload bytes of a fixed type from its fields; missing fields are zero. Not for the hot path."""
    import numpy as np

    number = type_id(type_)
    name = TYPE_NAMES[number]
    row = np.zeros(1, _dtype(_fields(name, 0), payload_bytes(number)))
    for field, value in values.items():
        if field not in (row.dtype.names or ()):
            raise JournalUsage(
                f"{name} has no field {field!r}; its fields are {', '.join(row.dtype.names or ())}"
            )
        row[field] = value
    return row.tobytes()
