"""The control socket: its path, its lock, and that nothing hangs on it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tapewire.runtime.control_messages import (
    ControlMessageError,
    Go,
    Hello,
    StatusRequest,
    decode_from_master,
    decode_to_master,
    encode,
)
from tapewire.runtime.control_plane import (
    SOCKET_PATH_BYTES_MAX,
    ControlClient,
    ControlLock,
    ControlSocketInUse,
    ControlUnavailable,
    socket_path,
)
from tapewire.runtime.control_server import ControlServer


def test_messages_round_trip_and_the_directions_do_not_mix() -> None:
    assert decode_to_master(encode(Hello("md", 7))) == Hello("md", 7)
    assert decode_from_master(encode(Go())) == Go()
    for data in (encode(Go()), b"", b"\xff", encode(Hello("md", 7))[:-1]):
        with pytest.raises(ControlMessageError):
            decode_to_master(data)


def test_socket_path_is_private_and_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    path = socket_path(tmp_path / "runs" / "a")
    assert path.parent == tmp_path / "tapewire"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path == socket_path(tmp_path / "runs" / "a")
    assert path != socket_path(tmp_path / "runs" / "b")

    path.parent.chmod(0o755)
    assert socket_path(tmp_path / "runs" / "a").parent == Path(f"/tmp/tapewire-{os.getuid()}")

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("x" * 100)))
    path = socket_path(tmp_path / "a")
    assert path.parent == Path(f"/tmp/tapewire-{os.getuid()}")
    assert len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX


def test_the_lock_is_exclusive_and_leaves_nothing(tmp_path: Path) -> None:
    socket = tmp_path / "c.sock"
    with ControlLock(socket), pytest.raises(ControlSocketInUse, match=str(os.getpid())):
        ControlLock(socket).acquire()
    with ControlLock(socket):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_second_server_on_the_same_path_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        first, second = ControlServer(tmp_path / "c.sock"), ControlServer(tmp_path / "c.sock")
        first.open(lambda _peer, _message: Go())
        with pytest.raises(ControlSocketInUse):
            second.open(lambda _peer, _message: None)

        def ask() -> object:
            with ControlClient(tmp_path / "c.sock") as client:
                return client.request(StatusRequest(), 5.0)

        assert await asyncio.to_thread(ask) == Go()
        await first.close()
        assert list(tmp_path.iterdir()) == []

    asyncio.run(scenario())


def test_a_socket_left_by_a_killed_master_is_replaced(tmp_path: Path) -> None:
    code = (
        "import asyncio, os, sys\n"
        "from tapewire.runtime.control_server import ControlServer\n"
        "async def main():\n"
        "    ControlServer(sys.argv[1]).open(lambda p, m: None)\n"
        "    await asyncio.sleep(0.1)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path / "c.sock")], timeout=30, check=False)
    assert killed.returncode == -9
    assert (tmp_path / "c.sock").exists()

    async def scenario() -> None:
        server = ControlServer(tmp_path / "c.sock")
        server.open(lambda _peer, _message: None)
        await server.close()

    asyncio.run(scenario())
    assert list(tmp_path.iterdir()) == []


def test_nothing_hangs_without_a_master(tmp_path: Path) -> None:
    started = time.monotonic()
    with ControlClient(tmp_path / "nobody.sock") as client:
        with pytest.raises(ControlUnavailable, match="did not answer"):
            client.request(StatusRequest(), 0.2)
        client.send(StatusRequest())
    assert time.monotonic() - started < 5
