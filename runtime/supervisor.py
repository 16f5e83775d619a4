"""What master knows about the processes of a run: start, readiness, death, stop.

No part of it touches an event. It needs a control server, the control file and the counters, and learns
everything else from its children's messages and their pidfds.

    start     spawn all → each says Hello → Join → each says Joined → Go, the sources last
    running   a death is judged by the process's `on_exit`; the sources ending well is the end of input
    stop      in order (see shutdown), on request, at the end of input, or after a death
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Iterable, Sequence

import structlog

from .child_process import (
    BAD_INPUT,
    Child,
    ChildSpec,
    Ending,
    Outcome,
    StartCancelled,
    death_at_start,
    death_problem,
)
from .control_messages import (
    FromMaster,
    Go,
    Hello,
    Join,
    Joined,
    ProcessStatus,
    Refused,
    RunStatus,
    StatusRequest,
    Stopping,
    ToMaster,
)
from .control_server import ControlServer
from .errors import ProcessDied, StartTimeout
from .live import CountersView, ProcessState, RunFlags, heartbeat_age_ns, is_stalled
from .shutdown import StopTiming, stop_in_order
from .watch import ProcessWatch, describe_exit

__all__ = ["Supervisor"]

log = structlog.get_logger()


class Supervisor:
    """Starts the children of one run, watches them, stops them.

    `on_change()` is called whenever a process was started or ended, so that the manifest can follow;
    `children` tells what there is to write.
    """

    def __init__(
        self,
        run: str,
        specs: Sequence[ChildSpec],
        server: ControlServer,
        flags: RunFlags,
        counters: CountersView,
        *,
        start_timeout_s: float = 20.0,
        timing: StopTiming | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.run = run
        self.state = "starting"
        self.problems: list[str] = []
        self.children: dict[str, Child] = {}
        self._specs = list(specs)
        self._server = server
        self._flags = flags
        self._counters = counters
        self._start_timeout_s = start_timeout_s
        self._timing = timing
        self._on_change = on_change
        self._changed = asyncio.Event()
        self._hurry = asyncio.Event()
        self._ending: Ending | None = None
        self._exit_status = 0
        self._failed: list[str] = []

    # ---- what may come from outside ----------------------------------------------------------------

    def request_stop(self) -> None:
        """Stop the run in order; a second request gives the children no time any more."""
        if self._ending is not None:
            self._hurry.set()
        self._end(Ending.REQUESTED)

    def fail(self, problem: str, exit_status: int) -> None:
        """Stop the run because something other than a child failed (the recorder has no space left)."""
        self._problem(problem, exit_status)
        self._end(Ending.FAILED)

    def handle(self, peer: bytes, message: ToMaster) -> FromMaster | None:
        """The handler of the control server."""
        if isinstance(message, StatusRequest):
            return self.status()
        if isinstance(message, Hello | Joined):
            child = self.children.get(message.name)
            if child is None or child.watch.pid != message.pid:
                return Refused(f"process {message.pid} is not the {message.name!r} of this run")
            child.peer = peer
            if isinstance(message, Hello):
                child.placement = message.placement
            else:
                child.joined = True
            self._changed.set()
            return None
        self.request_stop()
        return Stopping(self.run)

    def status(self) -> RunStatus:
        """The state of the run and of each process, now."""
        now = time.monotonic_ns()
        rows = []
        for child in self.children.values():
            block = self._counters.block(child.slot)
            age = heartbeat_age_ns(block, now)
            rows.append(
                ProcessStatus(
                    name=child.name,
                    role=child.role,
                    pid=child.watch.pid,
                    alive=child.watch.alive,
                    stalled=child.watch.alive and is_stalled(block, now),
                    heartbeat_age_ms=None if age is None else age // 1_000_000,
                    exit_code=child.watch.exit_code,
                )
            )
        return RunStatus(self.run, self.state, rows, list(self.problems))

    # ---- the life of the run -----------------------------------------------------------------------

    async def start(self) -> None:
        """Bring every process into its loop.

        Raises ProcessDied, StartTimeout, StartCancelled, or the error of a child that found bad input; then
        nobody is left.
        """
        deadline = time.monotonic() + self._start_timeout_s
        try:
            for spec in self._specs:
                self._spawn(spec)
            self._on_change()
            await self._until_all(lambda c: c.peer is not None, deadline)
            await self._tell(self.children.values(), Join())
            await self._until_all(lambda c: c.joined, deadline)
            sources = [c for c in self.children.values() if c.is_source]
            others = [c for c in self.children.values() if c.role != "market_data"]
            await self._tell(others, Go())
            # The sources go when the others poll already, so that the first event meets a warm pipeline.
            await self._until_all(lambda c: c.is_source or self._in_loop(c), deadline, poll_s=0.005)
            await self._tell(sources, Go())
            # From here on events flow: what fails now is a run that failed, with a record to keep.
        except BaseException:
            await self.kill_all()
            raise
        self.state = "running"

    async def watch(self) -> Ending:
        """Until something ends the run: a request, the end of input, a death, or `fail`."""
        while self._ending is None:
            self._changed.clear()
            for child in self.children.values():
                self._judge(child)
                self._check_heartbeat(child)
            if self._ending is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 1.0)
        return self._ending

    async def stop(self) -> Outcome:
        """Stop whoever still runs, in order, and say how the run ended."""
        self._end(Ending.REQUESTED)
        assert self._ending is not None
        self.state = "stopping"
        forced = await stop_in_order(
            list(self.children.values()),
            self._flags,
            lambda slot: self._counters.block(slot).get("frames_in"),
            lambda line: log.warning(line),
            timing=self._timing,
            hurry=self._hurry,
        )
        for line in forced:
            self._problem(line, 1)
        for child in self.children.values():
            self._judge(child)
        self.state = self._ending.value
        return Outcome(self._ending, list(self.problems), self._exit_status, list(self._failed))

    async def kill_all(self) -> None:
        """SIGKILL whoever runs; for a start that failed, where there is nothing to lose."""
        alive = [c for c in self.children.values() if c.watch.alive]
        for child in alive:
            child.watch.send_signal(signal.SIGKILL)
        for child in alive:
            await child.watch.wait(5.0)

    # ---- start -------------------------------------------------------------------------------------

    def _spawn(self, spec: ChildSpec) -> None:
        try:
            watch = ProcessWatch.spawn(spec.argv, spec.log, spec.env)
        except OSError as error:
            raise ProcessDied(spec.name, f"could not be started: {error}", spec.log) from None
        child = Child(spec.name, spec.role, spec.slot, watch, spec=spec)
        watch.on_exit = lambda: self._on_exit(child)
        self.children[spec.name] = child

    async def _until_all(self, ready: Callable[[Child], bool], deadline: float, poll_s: float = 60.0) -> None:
        while True:
            self._changed.clear()
            if self._ending is not None:
                raise StartCancelled(f"run {self.run} was stopped before it was up")
            for child in self.children.values():
                # A source with little input may have done its work before anyone looks.
                if not child.watch.alive and not self._done_well(child):
                    raise death_at_start(child)
            missing = [c.name for c in self.children.values() if c.watch.alive and not ready(c)]
            if not missing:
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise StartTimeout(missing, self._start_timeout_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(left, poll_s))

    def _in_loop(self, child: Child) -> bool:
        return self._counters.block(child.slot).get("state") >= ProcessState.RUNNING

    def _done_well(self, child: Child) -> bool:
        return child.is_source and child.joined and child.watch.exit_code == 0

    async def _tell(self, children: Iterable[Child], message: FromMaster) -> None:
        for child in children:
            if child.peer is not None:
                await self._server.send(child.peer, message)

    # ---- death and stall ---------------------------------------------------------------------------

    def _on_exit(self, child: Child) -> None:
        self._flags.clear_waits(child.slot)
        clean = child.watch.exit_code == 0
        if not clean:
            # Venues cancel the orders of a dead strategy; a feed in lockstep waits for nobody dead.
            self._flags.mark_failed(child.slot, True)
        log.info("process ended", process=child.name, how=describe_exit(child.watch.exit_code))
        self._changed.set()
        self._on_change()

    def _judge(self, child: Child) -> None:
        """Decide, once, what a process's end means for the run."""
        if child.watch.alive or child.judged:
            return
        child.judged = True
        code = child.watch.exit_code
        expected = self._ending is not None or child.is_source
        if child.is_source:
            self._check_end_of_input()
        if code == 0 and expected:
            return
        if child.forced:
            return  # reported already, by whoever forced it
        if code != BAD_INPUT:  # else its one line says all there is in its log
            self._failed.append(child.name)
        self._problem(death_problem(child), code if code is not None and code > 1 else 1)
        if child.spec.on_exit != "continue" or not any(c.watch.alive for c in self.children.values()):
            self._end(Ending.FAILED)

    @property
    def _sources(self) -> list[Child]:
        return [c for c in self.children.values() if c.is_source]

    def _check_end_of_input(self) -> None:
        # A source that failed, and may (`continue`), leaves it to others to end the run.
        if not any(c.watch.alive for c in self._sources) and any(
            c.watch.exit_code == 0 for c in self._sources
        ):
            self._end(Ending.END_OF_INPUT)

    def _check_heartbeat(self, child: Child) -> None:
        stalled = child.watch.alive and is_stalled(self._counters.block(child.slot))
        if stalled and not child.stalled:
            log.warning("process gives no sign of life", process=child.name, pid=child.watch.pid)
        elif child.stalled and not stalled and child.watch.alive:
            log.info("process is back", process=child.name)
        child.stalled = stalled

    def _problem(self, line: str, exit_status: int) -> None:
        log.error(line)
        self.problems.append(line)
        self._exit_status = self._exit_status or exit_status

    def _end(self, ending: Ending) -> None:
        if self._ending is None or ending is Ending.FAILED:
            self._ending = ending
        self._changed.set()
