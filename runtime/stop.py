"""`tapewire stop`: through master where there is one, else in its place.

A pid of the manifest is believed only with its start time and within the same boot, and a signal goes to
the very process that was checked.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass, field

from .. import _native
from .control_messages import Stopping, StopRequest
from .control_plane import ControlClient, ControlLock, ControlUnavailable, socket_path
from .finish import close_run, open_recorder, release_reserve
from .live import ProcessState
from .manifest import Manifest, RunState
from .rundir import RunDir, trusted_live_dir
from .shutdown import Stoppable, StopTiming, stop_in_order
from .watch import ProcessWatch

__all__ = ["StopResult", "recover", "stop_run"]

ANSWER_TIMEOUT_S = 5.0
MASTER_APPEARS_S = 3.0


@dataclass(frozen=True)
class StopResult:
    """What came of it: the state in the manifest, and whether there was anything to stop."""

    state: str
    stopped: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    already_over: bool = False


def stop_run(
    run: RunDir, say: Callable[[str], None] = lambda _line: None, *, timing: StopTiming | None = None
) -> StopResult:
    """Stop the run in order, wait until it is over, and see to it that nothing of it is left.

    Raises `ControlUnavailable` for a master that is there but does not answer, `ControlSocketInUse` where
    another `tapewire stop` is at work, `JournalFull` where the rest cannot be recorded.
    """
    manifest = run.manifest()
    alive = manifest.alive_processes()
    live = trusted_live_dir(manifest)
    if not alive and live is None and manifest.state not in ("starting", "running"):
        return StopResult(manifest.state, already_over=True)
    return asyncio.run(_stop(run, manifest, say, timing))


def recover(run: RunDir, manifest: Manifest) -> None:
    """Record what only shared memory still holds of a crashed run, for `prune_live`."""
    with _lock(run, manifest):
        open_recorder(run, manifest).finish()
        release_reserve(run)


async def _stop(
    run: RunDir, manifest: Manifest, say: Callable[[str], None], timing: StopTiming | None
) -> StopResult:
    manifest = await _with_master(run, manifest)
    master = _attach(manifest, manifest.master.pid, manifest.master.start_time)
    if master is not None:
        return await _stop_through_master(run, manifest, master, say)
    say(f"run {manifest.name} has no master; stopping its processes from the manifest")
    with _lock(run, manifest):
        return await _stop_without_master(run, run.manifest(), say, timing)


async def _with_master(run: RunDir, manifest: Manifest) -> Manifest:
    """The manifest once master has noted itself there, or nearly for sure never will: where its launcher was
    killed a moment ago, it is just coming up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + MASTER_APPEARS_S
    while manifest.state == "starting" and not manifest.master.pid and manifest.same_boot:
        if loop.time() > deadline:
            break
        await asyncio.sleep(0.05)
        manifest = run.manifest()
    return manifest


def _lock(run: RunDir, manifest: Manifest) -> ControlLock:
    # As master named it, since our own environment may lead elsewhere; it has no name if master died early.
    return ControlLock(manifest.control_socket or socket_path(run.path))


async def _stop_through_master(
    run: RunDir, manifest: Manifest, master: ProcessWatch, say: Callable[[str], None]
) -> StopResult:
    names = [name for name in manifest.alive_processes() if name != "master"]

    def ask() -> None:
        with ControlClient(manifest.control_socket) as client:
            answer = client.request(StopRequest(), ANSWER_TIMEOUT_S)
        if not isinstance(answer, Stopping):
            raise ControlUnavailable(f"master answered {answer!r} to a stop request")

    try:
        await asyncio.to_thread(ask)
    except ControlUnavailable:
        master.send_signal(signal.SIGTERM)  # it may be past serving its socket, or not there yet
        if not await master.wait(ANSWER_TIMEOUT_S):
            raise ControlUnavailable(
                f"master of run {manifest.name} (pid {master.pid}) does not answer; end it with "
                f"`kill -9 {master.pid}`, then run `tapewire stop {manifest.name}` again"
            ) from None
    say(f"run {manifest.name} is stopping: {', '.join(names)}")
    while not await master.wait(60.0):
        say(f"run {manifest.name} is still stopping")
    if not run.path.exists():
        return StopResult("cancelled", names)
    return StopResult(run.manifest().state, names)


async def _stop_without_master(
    run: RunDir, manifest: Manifest, say: Callable[[str], None], timing: StopTiming | None
) -> StopResult:
    live = trusted_live_dir(manifest)
    if live is None:
        # Another boot, or removed by hand: what was recorded is all there is.
        manifest.state = "failed"
        manifest.save(run.path)
        return StopResult("failed", problems=["nothing of it was alive; marked as failed"])
    control = _native.Control.open(str(live / "control"))
    counters = _native.Counters.open(str(live / "counters"), writable=True)
    processes = _attach_all(manifest, counters.names)
    names = [process.name for process in processes]
    for slot, name in enumerate(counters.names):
        if name not in names:
            _note_death(control, counters, slot, manifest.processes[name].role)
    for process in processes:
        process.watch.on_exit = _death_note(control, counters, process)
    problems = await stop_in_order(
        processes, control, lambda slot: counters.block(slot).get("frames_in"), say, timing=timing
    )
    left = [process.name for process in processes if process.watch.alive]
    if left:
        raise ControlUnavailable(f"{', '.join(left)} of run {manifest.name} cannot be ended; see `ps`")
    await asyncio.to_thread(open_recorder(run, manifest).finish)
    failed = [name for slot, name in enumerate(counters.names) if not _left_well(counters, slot)]
    problems += [f"process {name} did not end by itself" for name in failed]
    state: RunState = "failed" if failed else "stopped"
    close_run(
        run, manifest, counters, state, exit_status=1 if problems else 0, problems=problems, failed=failed
    )
    return StopResult(state, names, problems)


def _attach(manifest: Manifest, pid: int, start_time: int) -> ProcessWatch | None:
    return ProcessWatch.attach(pid, start_time) if pid > 0 and manifest.same_boot else None


def _attach_all(manifest: Manifest, names: list[str]) -> list[Stoppable]:
    processes = []
    for slot, name in enumerate(names):
        record = manifest.processes[name]
        watch = _attach(manifest, record.pid, record.start_time)
        if watch is not None:
            processes.append(Stoppable(name, record.role, slot, watch))
    return processes


def _death_note(
    control: _native.Control, counters: _native.Counters, process: Stoppable
) -> Callable[[], None]:
    return lambda: _note_death(control, counters, process.slot, process.role)


def _note_death(control: _native.Control, counters: _native.Counters, slot: int, role: str) -> None:
    control.clear_waits(slot)
    if role == "strategy" and not _left_well(counters, slot):
        control.mark_failed(slot, True)


def _left_well(counters: _native.Counters, slot: int) -> bool:
    # Not our child, so there is no exit status: the process itself says so as the last thing it does.
    return counters.block(slot).get("state") == ProcessState.DONE
