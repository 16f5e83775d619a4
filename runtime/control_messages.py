"""The messages of the control plane: tagged msgspec structs in msgpack.

child → master            master → child        command line → master      master → command line
Hello, Joined             Join, Go, Refused     StatusRequest, StopRequest RunStatus, Stopping, Refused
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from .cpu import Placement
from .errors import TapewireError

__all__ = [
    "ControlMessageError",
    "FromMaster",
    "Go",
    "Hello",
    "Join",
    "Joined",
    "ProcessStatus",
    "Refused",
    "RunStatus",
    "StatusRequest",
    "StopRequest",
    "Stopping",
    "ToMaster",
    "decode_from_master",
    "decode_to_master",
    "encode",
]


class ControlMessageError(TapewireError):
    """The bytes on the control socket are not a message of this protocol."""


class Hello(msgspec.Struct, tag="hello", frozen=True, forbid_unknown_fields=True):
    """A child has opened its streams and waits for `Join`; `placement` is what is in force for it."""

    name: str
    pid: int
    placement: Placement | None = None


class Joined(msgspec.Struct, tag="joined", frozen=True, forbid_unknown_fields=True):
    """A child has opened its readers and waits for `Go`."""

    name: str
    pid: int


class StatusRequest(msgspec.Struct, tag="status", frozen=True, forbid_unknown_fields=True):
    """How is the run?"""


class StopRequest(msgspec.Struct, tag="stop", frozen=True, forbid_unknown_fields=True):
    """Stop the run in order; answered at once with `Stopping`."""


class Join(msgspec.Struct, tag="join", frozen=True, forbid_unknown_fields=True):
    """Every stream exists: open your readers."""


class Go(msgspec.Struct, tag="go", frozen=True, forbid_unknown_fields=True):
    """Every reader is open: enter your loop."""


class Refused(msgspec.Struct, tag="refused", frozen=True, forbid_unknown_fields=True):
    """Master does not do what was asked, and why."""

    reason: str


class Stopping(msgspec.Struct, tag="stopping", frozen=True, forbid_unknown_fields=True):
    """The stop has begun."""

    run: str


class ProcessStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One process of a run. `heartbeat_age_ms` is None before its first heartbeat."""

    name: str
    role: str
    pid: int
    alive: bool
    stalled: bool
    heartbeat_age_ms: int | None = None
    exit_code: int | None = None


class RunStatus(msgspec.Struct, tag="run-status", frozen=True, forbid_unknown_fields=True):
    """Answer to `StatusRequest`; `problems` are the lines a person should read."""

    run: str
    state: str
    processes: list[ProcessStatus]
    problems: list[str]


ToMaster: TypeAlias = Hello | Joined | StatusRequest | StopRequest
FromMaster: TypeAlias = Join | Go | Refused | RunStatus | Stopping

_encoder = msgspec.msgpack.Encoder()
_to_master: msgspec.msgpack.Decoder[ToMaster] = msgspec.msgpack.Decoder(ToMaster)
_from_master: msgspec.msgpack.Decoder[FromMaster] = msgspec.msgpack.Decoder(FromMaster)


def encode(message: ToMaster | FromMaster) -> bytes:
    """The msgpack bytes of one message."""
    return _encoder.encode(message)


def decode_to_master(data: bytes) -> ToMaster:
    """Decode what a child or the command line sent; `ControlMessageError` if it is none of that."""
    try:
        return _to_master.decode(data)
    except msgspec.DecodeError as error:
        raise ControlMessageError(f"not a control message: {error}") from None


def decode_from_master(data: bytes) -> FromMaster:
    """Decode what master sent; `ControlMessageError` if it is none of that."""
    try:
        return _from_master.decode(data)
    except msgspec.DecodeError as error:
        raise ControlMessageError(f"not an answer of master: {error}") from None
