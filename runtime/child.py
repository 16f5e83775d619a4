"""What every process of a run does before and after its loop; the roles only add the loop.

    place itself on its CPUs → open its streams → build its parts → Hello … Join → open its readers →
    Joined … Go → close the control socket, freeze the collector → loop → close everything

Master's death does not end it: `Hello` to `Go` needs master, the loop does not.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import structlog

from .. import _native
from .config import ProcessConfig, StreamInfo, Topology
from .control_messages import FromMaster, Go, Hello, Join, Joined, Refused
from .control_plane import ControlClient, ControlUnavailable
from .cpu import Placement, allowed_cpus, apply
from .effective import EffectiveProcess, resolve
from .errors import StartTimeout, TapewireError
from .live import ERROR_PREFIX, ProcessState
from .logs import LogWriter, configure_logging
from .manifest import Manifest

__all__ = ["ChildContext", "RoleModule", "RoleProcess", "run_child"]

Expected = TypeVar("Expected", bound=FromMaster)

# Master gives up first and says who is missing; this is for a child whose master is gone or hangs.
MASTER_PATIENCE_FACTOR = 2.0
MASTER_POLL_S = 0.1


@dataclass
class ChildContext:
    """What a role gets to build its process from. The writers are open; nothing else is."""

    name: str
    run_dir: Path
    live_dir: Path
    manifest: Manifest
    topology: Topology
    config: ProcessConfig
    process: EffectiveProcess
    processes: dict[str, EffectiveProcess]
    control: _native.Control
    counters: _native.Counters
    block: _native.CounterBlock
    writer: _native.StreamWriter
    consumed_writer: _native.StreamWriter | None
    log: Any

    @property
    def journal_dir(self) -> Path:
        """The directory with the live pages of every stream."""
        return self.live_dir / "journal"

    def streams_of(self, *roles: str) -> tuple[StreamInfo, ...]:
        """The data streams of all processes of these roles, in the order of their ids."""
        return tuple(
            stream
            for stream in self.topology.streams()
            if stream.kind == "data" and self.processes[stream.process].role in roles
        )


class RoleProcess(Protocol):
    """One process of a run, made by its role's `create`."""

    def join(self) -> None:
        """Open readers: every stream of the run exists now."""

    def run(self) -> None:
        """Loop until asked to stop, or until the input ends."""

    def close(self) -> None:
        """Close what `create` and `join` opened; also called when they or `run` raised."""


class RoleModule(Protocol):
    """A module of `tapewire.processes`."""

    def create(self, context: ChildContext) -> RoleProcess:
        """Build the process; raises a `TapewireError` with exit status 2 for bad input."""


def run_child(name: str, run_dir: Path, role_module: Any) -> int:
    """Run process `name` of the run in `run_dir` to its end; returns its exit status.

    `role_module(role)` gives the role's module. What goes wrong is logged with its traceback; its one-line
    reason is the last line of the log.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command line, which stops us in order
    _native.install_stop_signal()
    parent = os.getppid()
    logs = configure_logging(name)
    log = structlog.get_logger()
    block: _native.CounterBlock | None = None
    try:
        context, placement = _open(name, run_dir, log)
        block = context.block
        block.set("pid", os.getpid())
        block.set("state", ProcessState.STARTING)
        try:
            _live(context, placement, role_module(context.process.role), parent, logs)
        finally:
            for writer in (context.writer, context.consumed_writer):
                if writer is not None:
                    writer.close()
        block.set("state", ProcessState.DONE)
        log.info("done")
        return 0
    except BaseException as error:  # a strategy may well call sys.exit
        if block is not None:
            block.set("state", ProcessState.FAILED)
        known = isinstance(error, TapewireError)
        # Where an error of ours wraps another, the other one happened in the code that must be looked at.
        log.error("failed", exc_info=error.__cause__ if known and error.__cause__ else error)
        reason = str(error) if known else f"{type(error).__name__}: {error}"
        print(ERROR_PREFIX + " ".join(reason.split("\n")), file=sys.stderr, flush=True)
        return error.exit_status if isinstance(error, TapewireError) else 1
    finally:
        logs.stop_deferring()


def _open(name: str, run_dir: Path, log: Any) -> tuple[ChildContext, Placement]:
    manifest = Manifest.load(run_dir)
    topology = Topology.from_dict(manifest.config)
    processes = resolve(topology, allowed_cpus())
    process = processes[name]
    # Before anything is allocated or any thread started: both stay where they were born.
    placement = apply(process)
    for refused in placement.refused:
        log.warning("not granted by the system", what=refused)
    live_dir = Path(manifest.live_dir)
    control = _native.Control.open(str(live_dir / "control"))
    counters = _native.Counters.open(str(live_dir / "counters"), writable=True)

    block = counters.block(process.slot)

    def writer(
        stream: str, stream_id: int, block: _native.CounterBlock | None = None
    ) -> _native.StreamWriter:
        return _native.StreamWriter(
            str(live_dir / "journal"),
            stream,
            stream_id,
            manifest.run_id,
            manifest.epoch,
            topology.run.page_bytes,
            control=control,
            helper_cpus=list(process.helper_cpus),
            block=block,
        )

    context = ChildContext(
        name=name,
        run_dir=run_dir,
        live_dir=live_dir,
        manifest=manifest,
        topology=topology,
        config=topology.processes[name],
        process=process,
        processes=processes,
        control=control,
        counters=counters,
        block=block,
        # The block counts the data stream: a second writer would overwrite its last seq.
        writer=writer(name, process.stream_id, block),
        consumed_writer=(
            writer(f"{name}.consumed", process.consumed_stream_id) if process.consumed_stream_id else None
        ),
        log=log,
    )
    return context, placement


def _live(
    context: ChildContext, placement: Placement, module: RoleModule, parent: int, logs: LogWriter
) -> None:
    role = module.create(context)
    try:
        master = _MasterLink(context, parent)
        try:
            context.block.set("state", ProcessState.READY)
            master.send(Hello(context.name, os.getpid(), placement))
            master.expect(Join)
            role.join()
            master.send(Joined(context.name, os.getpid()))
            master.expect(Go)
        finally:
            master.close()  # its thread must not wake up beside the loop
        context.log.info("in its loop", wait=str(context.process.wait), cpus=list(placement.cpus))
        logs.defer(context.process.helper_cpus)
        keeper = _keeper(context)
        gc.collect()
        gc.freeze()
        gc.disable()
        context.block.set("started_ns", time.monotonic_ns())
        context.block.set("heartbeat_ns", time.monotonic_ns())
        context.block.set("state", ProcessState.RUNNING)
        try:
            role.run()
        finally:
            gc.enable()
            if keeper is not None:
                keeper.stop()
    finally:
        role.close()


def _keeper(context: ChildContext) -> _native.Keeper | None:
    """Keep our CPUs awake where the run asks for it; each CPU has one keeper, in the first process on it."""
    others_before = [p for p in context.processes.values() if p.keeper and p.slot < context.process.slot]
    taken = {cpu for process in others_before for cpu in process.cpus}
    cpus = [cpu for cpu in context.process.cpus if cpu not in taken] if context.process.keeper else []
    return _native.Keeper(cpus) if cpus else None


class _MasterLink:
    """The control socket of a child, which notices when nobody is at the other end."""

    def __init__(self, context: ChildContext, parent: int) -> None:
        self._client = ControlClient(context.manifest.control_socket)
        self._parent = parent
        self._timeout_s = context.topology.run.start_timeout_s * MASTER_PATIENCE_FACTOR

    def send(self, message: Hello | Joined) -> None:
        self._client.send(message)

    def expect(self, kind: type[Expected]) -> None:
        """Wait for a message of `kind`; raises ControlUnavailable or StartTimeout."""
        deadline = time.monotonic() + self._timeout_s
        while time.monotonic() < deadline:
            message = self._client.receive(MASTER_POLL_S)
            if isinstance(message, kind):
                return
            if isinstance(message, Refused):
                raise ControlUnavailable(f"master refused this process: {message.reason}")
            if message is not None:
                raise ControlUnavailable(f"master sent {type(message).__name__}, expected {kind.__name__}")
            if os.getppid() != self._parent:
                raise ControlUnavailable("master ended before the run was up; start the run again")
            if _native.stop_signalled():
                raise ControlUnavailable("asked to stop before the run was up")
        raise StartTimeout(["master"], self._timeout_s)

    def close(self) -> None:
        self._client.close()
