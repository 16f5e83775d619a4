"""The control plane of a run: where its socket is, who may bind it, and the client's end.

Master binds a ROUTER on an ipc socket; children and the command line connect a DEALER. Nothing of this is on
the event path: a child closes its socket before it enters its loop, and a run keeps going when master is
gone.

ZeroMQ lets two processes bind one ipc path, and the last one silently wins. A lock file beside the socket,
held for as long as the socket is bound, turns that into `ControlSocketInUse`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import time
from pathlib import Path

import zmq

from .control_messages import FromMaster, ToMaster, decode_from_master, encode
from .errors import TapewireError

__all__ = [
    "ControlClient",
    "ControlLock",
    "ControlSocketInUse",
    "ControlUnavailable",
    "socket_path",
]

# sockaddr_un.sun_path holds 108 bytes, one of them the terminating zero.
SOCKET_PATH_BYTES_MAX = 107
MESSAGE_BYTES_MAX = 1 << 20


class ControlUnavailable(TapewireError):
    """Master does not answer, or there is no place for its socket."""


class ControlSocketInUse(TapewireError):
    """Another process already is the master of this run, or is stopping it."""

    exit_status = 2


# ---- where the socket is -------------------------------------------------------------------------


def socket_path(run_dir: str | Path) -> Path:
    """The ipc socket of this run directory; its directory exists, is ours alone (0700) and is no link.

    `$XDG_RUNTIME_DIR/tapewire`, or `/tmp/tapewire-<uid>` where that is unset, unusable or too long.
    Raises `ControlUnavailable`.
    """
    name = hashlib.blake2b(os.fsencode(Path(run_dir).resolve()), digest_size=8).hexdigest() + ".sock"
    candidates = [Path(f"/tmp/tapewire-{os.getuid()}")]
    if runtime_dir := os.environ.get("XDG_RUNTIME_DIR"):
        candidates.insert(0, Path(runtime_dir) / "tapewire")
    problems = []
    for directory in candidates:
        path = directory / name
        if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
            problems.append(f"{directory}: longer than a socket path may be ({SOCKET_PATH_BYTES_MAX} bytes)")
        elif problem := _private_directory_problem(directory):
            problems.append(problem)
        else:
            return path
    raise ControlUnavailable(f"no place for the control socket: {'; '.join(problems)}")


def _private_directory_problem(directory: Path) -> str | None:
    """Make `directory` if it is missing; None if it is a directory that only this user can enter."""
    try:
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        found = directory.lstat()
    except OSError as error:
        return f"{directory}: {error.strerror}"
    if not stat.S_ISDIR(found.st_mode):
        return f"{directory}: not a directory; remove it"
    if found.st_uid != os.getuid():
        return f"{directory}: belongs to user {found.st_uid}"
    if found.st_mode & 0o077:
        return f"{directory}: open to other users (mode {stat.S_IMODE(found.st_mode):o}); chmod 700 it"
    return None


class ControlLock:
    """The right to act as the master of one run: a kernel lock beside the socket, gone with its holder.

    `ControlLock(socket).acquire()` raises `ControlSocketInUse` if another process holds it. `release`
    removes the socket and the lock file. A context manager.
    """

    def __init__(self, socket: str | Path) -> None:
        self.socket = Path(socket)
        self.path = self.socket.with_suffix(".lock")
        self._fd = -1

    def acquire(self) -> ControlLock:
        """Take the lock, or raise `ControlSocketInUse` at once."""
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        while True:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
                os.close(fd)
                raise ControlSocketInUse(
                    f"{self.socket}: process {holder} already runs or stops this run; wait for it to end"
                ) from None
            except BaseException:
                os.close(fd)
                raise
            if self._is_current(fd):
                break
            os.close(fd)  # its holder removed the file between our open and our lock: take the new one
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        self._fd = fd
        return self

    def _is_current(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), os.stat(self.path, follow_symlinks=False))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Remove the socket and the lock file and let go; safe to call twice."""
        if self._fd < 0:
            return
        for path in (self.socket, self.path):
            path.unlink(missing_ok=True)
        os.close(self._fd)
        self._fd = -1

    def __enter__(self) -> ControlLock:
        return self.acquire() if self._fd < 0 else self

    def __exit__(self, *exc: object) -> None:
        self.release()


# ---- the client of children and of the command line ------------------------------------------------


class ControlClient:
    """A DEALER connected to master. Blocking, with a timeout on every wait; never hangs at exit.

    A context manager. The identity is ZeroMQ's own random one: a process that comes back after a crash
    is not mistaken for its predecessor.
    """

    def __init__(self, socket: str | Path) -> None:
        self.path = Path(socket)
        self._context = zmq.Context(io_threads=1)
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX)
        self._socket.setsockopt(zmq.RECONNECT_IVL, 20)
        self._socket.connect(f"ipc://{self.path}")

    def send(self, message: ToMaster) -> None:
        """Queue one message; it leaves as soon as master's socket is there."""
        self._socket.send(encode(message))

    def receive(self, timeout_s: float) -> FromMaster | None:
        """The next message, or None after `timeout_s` seconds on the monotonic clock."""
        if not self._socket.poll(max(0, round(timeout_s * 1e3)), zmq.POLLIN):
            return None
        return decode_from_master(self._socket.recv())

    def request(self, message: ToMaster, timeout_s: float) -> FromMaster:
        """Send `message` and return the answer; `ControlUnavailable` when none comes in time."""
        started = time.monotonic()
        self.send(message)
        answer = self.receive(timeout_s)
        if answer is None:
            waited = time.monotonic() - started
            raise ControlUnavailable(f"{self.path}: master did not answer within {waited:.1f} s")
        return answer

    def flush(self, linger_ms: int = 200) -> None:
        """Close, giving what was queued up to `linger_ms` to leave."""
        self._socket.setsockopt(zmq.LINGER, linger_ms)
        self.close()

    def close(self) -> None:
        """Close the socket and its context with its threads; safe to call twice."""
        if not self._socket.closed:
            self._socket.close()
        self._context.term()

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
