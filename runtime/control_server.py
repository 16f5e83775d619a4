"""Master's end of the control plane: a ROUTER that no peer can block, flood or confuse."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import structlog
import zmq
import zmq.asyncio

from .control_messages import ControlMessageError, FromMaster, Refused, ToMaster, decode_to_master, encode
from .control_plane import MESSAGE_BYTES_MAX, ControlLock

__all__ = ["ControlServer", "Handler"]

log = structlog.get_logger()

#: Gets a peer's identity and its message; what it returns is sent back to that peer.
Handler: TypeAlias = Callable[[bytes, ToMaster], FromMaster | None]


class ControlServer:
    """Binds the control socket of a run, under its lock, and hands each message to one handler.

    Raises `ControlSocketInUse` from `open` when another process holds the lock. To be used within one
    running event loop; `close` never waits for a peer.
    """

    def __init__(self, socket: str | Path) -> None:
        self.path = Path(socket)
        self._lock = ControlLock(self.path)
        self._context: zmq.asyncio.Context | None = None
        self._socket: zmq.asyncio.Socket | None = None
        self._task: asyncio.Task[None] | None = None

    def open(self, handler: Handler) -> None:
        """Bind and begin to serve."""
        self._lock.acquire()
        try:
            self.path.unlink(missing_ok=True)  # of a master that was killed: its lock went with it
            self._context = zmq.asyncio.Context(io_threads=1)
            self._socket = self._context.socket(zmq.ROUTER)
            self._socket.setsockopt(zmq.LINGER, 0)
            self._socket.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX)
            # Without it, what is sent to a peer that has gone vanishes without a word.
            self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self._socket.bind(f"ipc://{self.path}")
        except BaseException:
            self._drop_socket()
            self._lock.release()
            raise
        self._task = asyncio.get_running_loop().create_task(self._serve(handler))

    async def send(self, peer: bytes, message: FromMaster) -> bool:
        """Send to one peer; False if it has gone or does not read (it never holds up the others)."""
        if self._socket is None:
            return False
        try:
            await self._socket.send_multipart([peer, encode(message)], flags=zmq.NOBLOCK)
        except zmq.ZMQError as error:
            log.warning("control message not delivered", message=type(message).__name__, error=str(error))
            return False
        return True

    async def close(self, linger_s: float = 0.0) -> None:
        """Stop serving, remove the socket and release the lock.

        `linger_s` is how long answers already queued may take to leave.
        """
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        if linger_s > 0:
            await asyncio.sleep(linger_s)
        self._drop_socket()
        self._lock.release()

    def _drop_socket(self) -> None:
        if self._socket is not None:
            self._socket.close(linger=0)
            self._socket = None
        if self._context is not None:
            self._context.term()
            self._context = None

    async def _serve(self, handler: Handler) -> None:
        socket = self._socket
        assert socket is not None
        while True:
            peer, *parts = await socket.recv_multipart()
            try:
                if len(parts) != 1:
                    raise ControlMessageError(f"a message of {len(parts)} parts, expected one")
                answer = handler(peer, decode_to_master(parts[0]))
            except ControlMessageError as error:
                log.warning("control message refused", error=str(error))
                answer = Refused(str(error))
            except Exception:
                # One bad request must not deafen master to everyone else.
                log.exception("control message failed")
                answer = Refused("master failed to handle it; see its log")
            if answer is not None:
                await self.send(peer, answer)
