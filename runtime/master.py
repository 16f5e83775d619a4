"""The master of one run: its files, its processes, its recorder, and its end.

It is off the event path. When it dies the processes go on, and `tapewire stop` ends the run from the
manifest.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from typing import Any

import structlog

from .. import _native
from .child_process import ChildSpec, Ending, Outcome
from .config import Topology
from .control_plane import socket_path
from .control_server import ControlServer
from .cpu import Placement, allowed_cpus, apply
from .effective import EffectiveProcess, pinned_cpus, resolve
from .environment import process_start_time
from .errors import ProcessDied, StartTimeout, TapewireError
from .finish import close_run, open_recorder, release_reserve, reserve_space
from .manifest import Manifest, ProcessIdentity
from .master_report import ReportWriter, RunEnded, RunStarted, StartFailed
from .policies import WaitSpec, parse_sched
from .recording import Recording
from .rundir import RunDir, create_live_dir, trusted_live_dir
from .supervisor import Supervisor
from .watch import tail_lines

__all__ = ["Master"]

log = structlog.get_logger()


class Master:
    """Runs the run in `run` to its end. `for_s`: stop it that many seconds after it was up."""

    def __init__(self, run: RunDir, report: ReportWriter, *, for_s: float | None = None) -> None:
        self._run = run
        self._report = report
        self._for_s = for_s
        self._manifest: Manifest = run.manifest()
        self._topology: Topology = self._manifest.topology_config()
        self._processes: dict[str, EffectiveProcess] = resolve(self._topology, allowed_cpus())
        self._supervisor: Supervisor | None = None
        self._recording: Recording | None = None
        self._server: ControlServer | None = None
        self._placement: Placement | None = None

    async def run(self) -> int:
        """From nothing to nothing left; returns the exit status."""
        started = time.monotonic()
        try:
            supervisor, counters = await self._start()
        except (TapewireError, OSError) as error:
            return await self._start_failed(error)
        except BaseException as error:
            await self._start_failed(error)
            raise
        took = time.monotonic() - started
        self._manifest.state = "running"
        self._save()
        log.info("running", start_s=round(took, 3))
        self._report.send(RunStarted(round(took, 6), self._refused()))
        if self._for_s is not None:
            asyncio.get_running_loop().call_later(self._for_s, supervisor.request_stop)
        await supervisor.watch()
        outcome = await supervisor.stop()
        outcome = await self._finish(outcome, counters)
        self._report.send(
            RunEnded(outcome.ending.value, outcome.exit_status, outcome.problems, outcome.failed)
        )
        log.info("ended", state=outcome.ending.value, exit_status=outcome.exit_status)
        return outcome.exit_status

    # ---- start -------------------------------------------------------------------------------------

    async def _start(self) -> tuple[Supervisor, _native.Counters]:
        manifest, run = self._manifest, self._run
        loop = asyncio.get_running_loop()
        manifest.master = ProcessIdentity(pid=os.getpid(), start_time=process_start_time(os.getpid()) or 0)
        manifest.control_socket = str(socket_path(run.path))
        self._save()
        reserve_space(run)
        live_dir = create_live_dir(manifest, run)
        (live_dir / "journal").mkdir()
        run.journal_dir.mkdir(exist_ok=True)
        control = _native.Control.create(str(live_dir / "control"))
        counters = _native.Counters.create(str(live_dir / "counters"), list(self._processes))
        server = self._server = ControlServer(manifest.control_socket)
        supervisor = self._supervisor = Supervisor(
            manifest.name,
            [self._spec(process) for process in self._processes.values()],
            server,
            control,
            counters,
            start_timeout_s=self._topology.run.start_timeout_s,
            on_change=self._save_processes,
        )
        server.open(supervisor.handle)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, supervisor.request_stop)
        self._recording = Recording(
            open_recorder(run, manifest), self._topology.run.interval_ms / 1e3, self._recorder_failed
        )
        self._recording.start()
        await supervisor.start()
        self._place()
        return supervisor, counters

    def _spec(self, process: EffectiveProcess) -> ChildSpec:
        name = process.name
        return ChildSpec(
            name=name,
            role=process.role,
            slot=process.slot,
            argv=(sys.executable, "-P", "-m", "tapewire.processes", name, str(self._run.path)),
            log=self._run.logs_dir / f"{name}.log",
            on_exit=process.on_exit,
            # The order of a set of names must not differ between two runs over the same input.
            env={"PYTHONHASHSEED": "0", **os.environ},
        )

    def _place(self) -> None:
        """Put master and its threads where the topology wants them. After the start: children inherit it."""
        threads = [int(name) for name in os.listdir("/proc/self/task") if int(name) != os.getpid()]
        placement = self._placement = apply(_master_process(self._topology))
        for thread in threads:
            with contextlib.suppress(OSError):  # it has ended, or what `apply` was refused as well
                os.sched_setaffinity(thread, placement.cpus)
                os.setpriority(os.PRIO_PROCESS, thread, placement.nice)

    def _refused(self) -> list[str]:
        """What the system did not grant, a line each: a latency taken without it means something else."""
        assert self._supervisor is not None
        placements = {name: child.placement for name, child in self._supervisor.children.items()}
        return [
            f"process {name}: {refused}"
            for name, placement in {**placements, "master": self._placement}.items()
            if placement is not None
            for refused in placement.refused
        ]

    async def _start_failed(self, error: BaseException) -> int:
        """Leave nothing behind, and tell the launcher why."""
        log.error("start failed", error=str(error), exc_info=True)
        if self._supervisor is not None:
            await self._supervisor.kill_all()
        if self._recording is not None:
            with contextlib.suppress(Exception):
                await self._recording.finish()
        if self._server is not None:
            await self._server.close()
        if trusted_live_dir(self._manifest) is not None:
            shutil.rmtree(self._manifest.live_dir, ignore_errors=True)
        tail = self._tail(error)
        self._run.discard()
        known = isinstance(error, TapewireError)
        reason = str(error) if known else f"master failed: {type(error).__name__}: {error}"
        status = error.exit_status if isinstance(error, TapewireError) else 1
        self._report.send(StartFailed(reason, status, tail))
        return status

    def _tail(self, error: BaseException) -> str:
        """The end of the log of whoever spoilt the start."""
        if isinstance(error, StartTimeout):
            return "\n".join(tail_lines(self._run.logs_dir / f"{error.missing[0]}.log"))
        return error.tail if isinstance(error, ProcessDied) else ""

    # ---- while it runs -----------------------------------------------------------------------------

    def _save_processes(self) -> None:
        assert self._supervisor is not None
        for child in self._supervisor.children.values():
            record = self._manifest.processes[child.name]
            record.pid, record.start_time = child.watch.pid, child.watch.start_time
            record.exit_code = child.watch.exit_code
            if child.placement is not None:
                record.cpu = list(child.placement.cpus)
                record.sched = child.placement.sched
        self._save()

    def _save(self) -> None:
        try:
            self._manifest.save(self._run.path)
        except OSError as error:
            log.error("cannot write the manifest", error=str(error))

    def _recorder_failed(self, error: Exception) -> None:
        assert self._supervisor is not None
        status = error.exit_status if isinstance(error, TapewireError) else 1
        self._supervisor.fail(f"recorder: {error}", status)

    # ---- end ---------------------------------------------------------------------------------------

    async def _finish(self, outcome: Outcome, counters: Any) -> Outcome:
        """Record the rest, close the run, give everything back."""
        assert self._recording is not None
        assert self._server is not None
        release_reserve(self._run)
        try:
            await self._recording.finish()
        except (TapewireError, OSError) as error:
            line = f"recorder: {error}"
            if line not in outcome.problems:
                outcome = _failed(outcome, line, error)
        try:
            close_run(
                self._run,
                self._manifest,
                counters,
                outcome.ending.value,
                exit_status=outcome.exit_status,
                problems=outcome.problems,
                failed=outcome.failed,
            )
        except OSError as error:
            outcome = _failed(outcome, f"cannot close the run in {self._run.path}: {error.strerror}", error)
            shutil.rmtree(self._manifest.live_dir, ignore_errors=True)
        await self._server.close()
        return outcome


def _master_process(topology: Topology) -> EffectiveProcess:
    """The `[processes.master]` table as a process to be placed; it has no slot and no stream."""
    config = topology.master
    return EffectiveProcess(
        name=config.name,
        role=config.role,
        slot=-1,
        stream_id=0,
        consumed_stream_id=0,
        cpus=pinned_cpus(config),
        shared=True,
        helper_cpus=(),
        wait=WaitSpec(policy="batch", batch_ms=topology.run.interval_ms),
        sched=parse_sched(config.sched, where=topology.source, key="processes.master.sched"),
        nice=config.nice,
        mlock=config.mlock,
        on_exit=config.on_exit,
        keeper=False,
    )


def _failed(outcome: Outcome, line: str, error: Exception) -> Outcome:
    log.error(line)
    status = error.exit_status if isinstance(error, TapewireError) else 1
    return Outcome(Ending.FAILED, [*outcome.problems, line], outcome.exit_status or status, outcome.failed)
