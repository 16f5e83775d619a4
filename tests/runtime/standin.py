"""A stand-in for a process of a run: speaks the control plane, has no journal.

    python standin.py NAME SLOT SOCKET DIRECTORY BEHAVIOUR

The control file and the counters are plain files of int64 in DIRECTORY (see `Shared`).
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import sys
import time
from pathlib import Path
from typing import Any

from tapewire.runtime.control_messages import Go, Hello, Join, Joined
from tapewire.runtime.control_plane import ControlClient
from tapewire.runtime.live import ProcessState

SLOTS = 8
FIELDS = ("stop", "failed", "waits", "state", "heartbeat_ns", "frames_in")


class Block:
    """The counters of one slot, with the interface of the native block."""

    def __init__(self, memory: mmap.mmap, slot: int) -> None:
        self._memory = memory
        self._base = slot * len(FIELDS) * 8

    def get(self, name: str) -> int:
        value: int = struct.unpack_from("<q", self._memory, self._base + 8 * FIELDS.index(name))[0]
        return value

    def set(self, name: str, value: int) -> None:
        struct.pack_into("<q", self._memory, self._base + 8 * FIELDS.index(name), value)

    def snapshot(self) -> dict[str, Any]:
        return {name: self.get(name) for name in FIELDS}


class Shared:
    """Control file and counters in one: the interfaces `RunFlags` and `CountersView`."""

    def __init__(self, directory: Path, names: tuple[str, ...] = ()) -> None:
        self.names = names
        path = directory / "shared"
        if not path.exists():
            path.write_bytes(bytes(SLOTS * len(FIELDS) * 8))
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    def block(self, slot: int) -> Block:
        return Block(self._memory, slot)

    def request_stop(self, slot: int, how: int) -> None:
        self.block(slot).set("stop", how)

    def mark_failed(self, slot: int, failed: bool) -> None:
        self.block(slot).set("failed", int(failed))

    def clear_waits(self, slot: int) -> None:
        self.block(slot).set("waits", 0)


def main(name: str, slot: int, socket: str, directory: Path, behaviour: str) -> int:
    block = Shared(directory).block(slot)
    terminated = False

    def on_term(*_: object) -> None:
        nonlocal terminated
        terminated = True

    signal.signal(signal.SIGTERM, signal.SIG_IGN if behaviour == "deaf" else on_term)
    if behaviour == "bad-input":
        print("error: recording.gz: line 7: not JSON", flush=True)
        return 2
    if behaviour == "crash-early":
        raise RuntimeError("no such venue")
    block.set("waits", 1)
    with ControlClient(socket) as client:
        if behaviour == "mute":
            time.sleep(60)
        client.send(Hello(name, os.getpid()))
        assert isinstance(client.receive(10), Join)
        client.send(Joined(name, os.getpid()))
        assert isinstance(client.receive(10), Go)
    block.set("state", ProcessState.RUNNING)
    record(directory, f"go {name}")
    started = time.monotonic()
    drained = 0
    while True:
        if behaviour != "stalled" or block.get("heartbeat_ns") == 0:
            block.set("heartbeat_ns", time.monotonic_ns())
        if behaviour == "short" and time.monotonic() - started > 0.2:
            break
        if behaviour == "fail-late" and time.monotonic() - started > 0.2:
            print("error: division by zero in on_depth", flush=True)
            return 1
        if block.get("stop") and behaviour not in ("ignores-stop", "deaf"):
            if behaviour != "slow-drain" or drained == 10:
                break
            drained += 1
            block.set("frames_in", drained)
            time.sleep(0.05)
        if terminated:
            break
        time.sleep(0.01)
    record(directory, f"end {name}")
    return 0


def record(directory: Path, line: str) -> None:
    """Append to the common list of what happened; O_APPEND keeps the order true."""
    with open(directory / "order", "a") as file:
        file.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]), sys.argv[5]))
