"""Starting a run and staying in touch with it: what the command line and the benchmarks use.

    run = launch(topology, create_run(base, name, topology))
    result = run.wait()

The run belongs to its master, a process in a session of its own: it goes on when the launcher dies.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from .. import _native
from .config import Topology
from .control_plane import ControlLock
from .cpu import allowed_cpus
from .effective import resolve
from .environment import capture, clock_anchor, versions
from .errors import TapewireError
from .manifest import Manifest, new_manifest
from .master_report import ReportReader, RunEnded, RunStarted, StartFailed
from .rundir import RunDir, live_dir_of, trusted_live_dir
from .watch import describe_exit, tail_lines

__all__ = ["RunFailedToStart", "RunResult", "RunningRun", "launch"]


class RunFailedToStart(TapewireError):
    """The run did not come up, and nothing of it is left. `tail` is the end of the guilty process's log."""

    def __init__(self, message: str, exit_status: int, tail: str = "") -> None:
        self.exit_status = exit_status
        self.tail = tail
        super().__init__(message)


@dataclass(frozen=True)
class RunResult:
    """How a run ended. `state` is the manifest's (finished, stopped, failed), or "masterless" when master
    was killed and the processes go on without it."""

    state: str
    exit_status: int
    problems: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class RunningRun:
    """A run that is up, seen from its launcher. As a context manager, stopped at the end of the block.

    `start_s` is how long the start took, from master's first line to every process in its loop; `warnings`
    are lines about what the system refused (a niceness, a scheduling class, locked memory).
    """

    def __init__(
        self, run: RunDir, manifest: Manifest, master: subprocess.Popen[bytes], reader: ReportReader
    ) -> None:
        self.run = run
        self.start_s = 0.0
        self.warnings: list[str] = []
        self._name = manifest.name
        self._live_dir = manifest.live_dir
        self._master = master
        self._reader = reader
        self._result: RunResult | None = None
        self._counters: _native.Counters | None = None

    @property
    def name(self) -> str:
        """The run's name."""
        return self._name

    @property
    def counters(self) -> _native.Counters:
        """The live counters of the run, read only; they stay readable after it ended, as they last were."""
        if self._counters is None:
            self._counters = _native.Counters.open(f"{self._live_dir}/counters", writable=False)
        return self._counters

    def wait(self, timeout_s: float | None = None) -> RunResult | None:
        """How the run ended; None if it still runs after `timeout_s` seconds. Waiting costs nothing."""
        if self._result is None:
            report = self._reader.read(timeout_s)
            if report is None and not self._reader.at_end:
                return None
            self._result = self._ended(report)
        return self._result

    def stop(self) -> None:
        """Ask for an orderly stop, and return at once; the second call asks for it without any grace."""
        if self._result is None:
            with contextlib.suppress(ProcessLookupError):
                self._master.send_signal(signal.SIGTERM)

    def __enter__(self) -> RunningRun:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.wait(0) is None:
            self.stop()
            self.wait()
        self._reader.close()

    def _wait_for_start(self) -> None:
        """Return when it is up; raises RunFailedToStart."""
        interrupted = False
        while True:
            try:
                report = self._reader.read(None)
                break
            except KeyboardInterrupt:
                interrupted = True
                self.stop()  # master calls the start off and cleans up
        if isinstance(report, RunStarted):
            self.start_s = report.start_s
            self.warnings = report.warnings
            if interrupted:  # it was too late to call it off
                self.wait()
                raise KeyboardInterrupt
            return
        code = self._master.wait()
        if report is None and self._came_up():
            return  # and master was killed right after; `wait` will say so
        self._reader.close()
        if isinstance(report, StartFailed):
            if interrupted:
                raise KeyboardInterrupt
            raise RunFailedToStart(report.error, report.exit_status, report.tail)
        tail = "\n".join(tail_lines(self.run.logs_dir / "master.log"))
        _clean_up(self.run)
        if interrupted:  # before master could listen
            raise KeyboardInterrupt
        raise RunFailedToStart(f"master {describe_exit(code)} before the run was up", 1, tail)

    def _came_up(self) -> bool:
        try:
            return self.run.manifest().state == "running"
        except TapewireError:
            return False

    def _ended(self, report: object) -> RunResult:
        code = self._master.wait()
        self._reader.close()
        if isinstance(report, RunEnded):
            return RunResult(report.state, report.exit_status, report.problems, report.failed)
        problem = (
            f"master {describe_exit(code)}; the processes of run {self._name} go on without it — "
            f"`tapewire stop {self._name}` stops them"
        )
        return RunResult("masterless", 1, [problem])


def launch(
    topology: Topology, run: RunDir, *, for_s: float | None = None, argv: Sequence[str] = ()
) -> RunningRun:
    """Start `topology` in the new run directory `run` (of `rundir.create_run`) and wait until it is up.

    `for_s`: master stops it that many seconds later, whether or not we are still there. Raises
    `RunFailedToStart`, whose exit status is 2 where the input was bad; then no process, no live file and
    no run directory is left.
    """
    try:
        manifest = new_manifest(
            topology,
            resolve(topology, allowed_cpus()).values(),
            name=run.name,
            live_dir=live_dir_of(topology.run.live_dir, run.name),
            argv=list(argv or sys.argv),
            clock=clock_anchor(),
            versions=versions(),
            environment=capture(),
        )
        run.logs_dir.mkdir()
        manifest.save(run.path)
        master, read_fd = _spawn_master(run, for_s)
    except BaseException:
        run.discard()
        raise
    running = RunningRun(run, manifest, master, ReportReader(read_fd))
    running._wait_for_start()
    return running


def _spawn_master(run: RunDir, for_s: float | None) -> tuple[subprocess.Popen[bytes], int]:
    """Master in a session of its own, and the read end of the pipe on which it reports."""
    read_fd, write_fd = os.pipe()
    arguments = ["master", str(run.path), "--report-fd", str(write_fd)]
    if for_s is not None:
        arguments += ["--for-s", repr(for_s)]
    try:
        with open(run.logs_dir / "master.log", "ab") as output:
            master = subprocess.Popen(
                # -P: a queue.py or journal.py in the working directory shadows nothing.
                [sys.executable, "-P", "-m", "tapewire.processes", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(write_fd,),
            )
    except BaseException:
        os.close(read_fd)
        raise
    finally:
        os.close(write_fd)
    return master, read_fd


def _clean_up(run: RunDir) -> None:
    """After a master that died without a word while starting: end its children, remove what it made."""
    with contextlib.suppress(TapewireError):
        manifest = run.manifest()
        # Its children end by themselves when they miss master; give them no time to.
        for record in manifest.processes.values():
            if record.alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(record.pid, signal.SIGKILL)
        deadline = time.monotonic() + 5.0
        while manifest.alive_processes() and time.monotonic() < deadline:
            time.sleep(0.01)
        if trusted_live_dir(manifest) is not None:
            shutil.rmtree(manifest.live_dir, ignore_errors=True)
        if manifest.control_socket:
            ControlLock(manifest.control_socket).acquire().release()
    run.discard()
