"""Start, death and stop of a run's processes, with stand-in children (standin.py)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tapewire.runtime.child_process import ChildSpec, Ending, Outcome, StartCancelled
from tapewire.runtime.control_messages import Hello, Refused, RunStatus, StatusRequest, Stopping, StopRequest
from tapewire.runtime.control_plane import ControlClient
from tapewire.runtime.control_server import ControlServer
from tapewire.runtime.errors import ProcessDied, StartTimeout, TapewireError
from tapewire.runtime.shutdown import StopTiming
from tapewire.runtime.supervisor import Supervisor

sys.path.insert(0, str(Path(__file__).parent))
from standin import Shared

STANDIN = Path(__file__).with_name("standin.py")
ROLES = {"md": "market_data", "strategy": "strategy", "td": "trade_gateway", "ledger": "ledger"}
FAST = StopTiming(grace_s=0.4, term_s=0.4, kill_s=5.0, poll_s=0.02)


@dataclass
class Run:
    supervisor: Supervisor
    shared: Shared
    directory: Path
    socket: Path
    changes: list[int]

    def order(self) -> list[str]:
        """What the children recorded, in order."""
        path = self.directory / "order"
        return path.read_text().splitlines() if path.exists() else []

    def slot(self, name: str) -> int:
        return list(ROLES).index(name)

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.supervisor.children[name].watch.pid, number)

    async def finish(self) -> Outcome:
        await asyncio.wait_for(self.supervisor.watch(), 10)
        return await asyncio.wait_for(self.supervisor.stop(), 10)


@contextlib.asynccontextmanager
async def topology(
    directory: Path, *, timeout_s: float = 10.0, on_exit: dict[str, str] | None = None, **behaviours: str
) -> AsyncIterator[Run]:
    """md, strategy, td and ledger as stand-ins, not yet started; nobody is left afterwards."""
    socket = directory / "control.sock"
    shared = Shared(directory, tuple(ROLES))
    specs = [
        ChildSpec(
            name=name,
            role=role,
            slot=slot,
            argv=(
                *(sys.executable, str(STANDIN), name, str(slot)),
                *(str(socket), str(directory), behaviours.get(name, "normal")),
            ),
            log=directory / f"{name}.log",
            on_exit=(on_exit or {}).get(name, "stop-run"),
        )
        for slot, (name, role) in enumerate(ROLES.items())
    ]
    server = ControlServer(socket)
    changes: list[int] = []
    supervisor = Supervisor(
        "test",
        specs,
        server,
        shared,
        shared,
        start_timeout_s=timeout_s,
        timing=FAST,
        on_change=lambda: changes.append(1),
    )
    server.open(supervisor.handle)
    try:
        yield Run(supervisor, shared, directory, socket, changes)
    finally:
        await supervisor.kill_all()
        await server.close()


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_everyone_goes_and_the_source_goes_last_then_stops_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with topology(tmp_path) as r:
            await r.supervisor.start()
            assert r.supervisor.state == "running"
            while len(r.order()) < 4:  # the source has been told, and may not have begun
                await asyncio.sleep(0.01)
            assert r.order()[-1] == "go md"
            assert sorted(r.order()) == ["go ledger", "go md", "go strategy", "go td"]
            r.supervisor.request_stop()
            outcome = await r.finish()
            assert outcome == Outcome(Ending.REQUESTED, [], 0)
            assert r.order()[4:] == ["end md", "end strategy", "end td", "end ledger"]
            assert r.changes

    run(scenario)


def test_end_of_input_finishes_the_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with topology(tmp_path, md="short") as r:
            await r.supervisor.start()
            assert await r.finish() == Outcome(Ending.END_OF_INPUT, [], 0)
            assert r.order()[4:] == ["end md", "end strategy", "end td", "end ledger"]

    run(scenario)


@pytest.mark.parametrize("name", list(ROLES))
def test_a_killed_child_is_named_and_stops_the_run(tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        async with topology(tmp_path) as r:
            await r.supervisor.start()
            r.kill(name)
            outcome = await r.finish()
            assert outcome.ending is Ending.FAILED
            assert outcome.problems == [f"process {name} was killed by SIGKILL"]
            assert outcome.exit_status == 1
            assert outcome.failed == [name]
            assert all(not c.watch.alive for c in r.supervisor.children.values())
            # The venues learn of a dead strategy, and nobody waits for a waiter that is gone.
            assert r.shared.block(r.slot("strategy")).get("failed") == int(name == "strategy")
            assert r.shared.block(r.slot(name)).get("waits") == 0

    run(scenario)


def test_continue_keeps_the_run_and_still_marks_the_strategy_failed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with topology(tmp_path, on_exit={"strategy": "continue"}) as r:
            await r.supervisor.start()
            watching = asyncio.create_task(r.supervisor.watch())
            r.kill("strategy")
            await asyncio.sleep(0.3)
            assert not watching.done()
            assert r.shared.block(r.slot("strategy")).get("failed") == 1
            assert [p.name for p in r.supervisor.status().processes if not p.alive] == ["strategy"]
            r.supervisor.request_stop()
            await watching
            outcome = await r.supervisor.stop()
            assert outcome.ending is Ending.REQUESTED
            assert outcome.problems == ["process strategy was killed by SIGKILL"]
            assert outcome.exit_status == 1

    run(scenario)


def test_the_reason_a_child_gives_is_passed_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with topology(tmp_path, strategy="fail-late") as r:
            await r.supervisor.start()
            outcome = await r.finish()
            assert outcome.problems == [
                "process strategy ended with exit status 1: division by zero in on_depth"
            ]

    run(scenario)


def test_leaving_unasked_is_a_failure_for_all_but_the_source(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with topology(tmp_path, ledger="short") as r:
            await r.supervisor.start()
            outcome = await r.finish()
            assert outcome.ending is Ending.FAILED
            assert outcome.problems == ["process ledger ended with exit status 0 without being asked to"]

    run(scenario)


def test_bad_input_at_start_is_one_line_with_status_2(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with topology(tmp_path, md="bad-input") as r:
            with pytest.raises(TapewireError) as caught:
                await r.supervisor.start()
            assert str(caught.value) == "recording.gz: line 7: not JSON"
            assert caught.value.exit_status == 2
            assert all(not c.watch.alive for c in r.supervisor.children.values())

    run(scenario)


def test_a_crash_at_start_brings_the_end_of_its_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with topology(tmp_path, td="crash-early") as r:
            with pytest.raises(
                ProcessDied, match="process td ended with exit status 1 while starting"
            ) as caught:
                await r.supervisor.start()
            assert "RuntimeError: no such venue" in caught.value.tail
            assert all(not c.watch.alive for c in r.supervisor.children.values())

    run(scenario)


def test_start_timeout_names_who_is_missing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with topology(tmp_path, timeout_s=1.5, ledger="mute") as r:
            with pytest.raises(StartTimeout) as caught:
                await r.supervisor.start()
            assert caught.value.missing == ["ledger"]
            assert all(not c.watch.alive for c in r.supervisor.children.values())

    run(scenario)


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with topology(tmp_path) as r:
            bad = ChildSpec("x", "ledger", 4, ("/nonexistent",), tmp_path / "x.log")
            r.supervisor._specs.append(bad)
            with pytest.raises(ProcessDied, match="process x could not be started"):
                await r.supervisor.start()
            assert all(not c.watch.alive for c in r.supervisor.children.values())

    run(scenario)


def test_a_stop_during_the_start_cancels_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with topology(tmp_path, ledger="mute") as r:
            asyncio.get_running_loop().call_later(0.3, r.supervisor.request_stop)
            with pytest.raises(StartCancelled):
                await r.supervisor.start()
            assert all(not c.watch.alive for c in r.supervisor.children.values())

    run(scenario)


@pytest.mark.parametrize(
    ("behaviour", "signals"), [("ignores-stop", "SIGTERM"), ("deaf", "SIGTERM, then SIGKILL")]
)
def test_who_does_not_stop_is_forced_and_reported(tmp_path: Path, behaviour: str, signals: str) -> None:
    async def scenario() -> None:
        async with topology(tmp_path, td=behaviour) as r:
            await r.supervisor.start()
            r.supervisor.request_stop()
            outcome = await r.finish()
            assert outcome.problems == [f"process td did not stop when asked: {signals}"]
            assert outcome.exit_status == 1
            # The ledger was asked only after td had gone.
            assert r.order()[-1] == "end ledger"

    run(scenario)


def test_who_still_works_through_its_input_is_given_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with topology(tmp_path, strategy="slow-drain") as r:  # takes longer than the grace period
            await r.supervisor.start()
            r.supervisor.request_stop()
            assert await r.finish() == Outcome(Ending.REQUESTED, [], 0)
            assert r.shared.block(r.slot("strategy")).get("frames_in") == 10

    run(scenario)


def test_a_second_stop_gives_no_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with topology(tmp_path, md="ignores-stop") as r:
            r.supervisor._timing = StopTiming(grace_s=60, term_s=1, poll_s=0.02)
            await r.supervisor.start()
            r.supervisor.request_stop()
            asyncio.get_running_loop().call_later(0.2, r.supervisor.request_stop)
            outcome = await r.finish()
            assert "process md did not stop when asked: SIGTERM" in outcome.problems

    run(scenario)


def test_a_stopped_process_is_reported_as_stalled_and_left_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with topology(tmp_path, strategy="stalled") as r:
            await r.supervisor.start()
            watching = asyncio.create_task(r.supervisor.watch())
            await asyncio.sleep(2.6)
            assert [p.name for p in r.supervisor.status().processes if p.stalled] == ["strategy"]
            assert all(p.alive for p in r.supervisor.status().processes)
            r.supervisor.request_stop()
            await watching
            assert (await r.supervisor.stop()).exit_status == 0

    run(scenario)


def test_status_and_stop_over_the_socket(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with topology(tmp_path) as r:
            await r.supervisor.start()
            ask = asyncio.to_thread

            def request(message: Any) -> Any:
                with ControlClient(r.socket) as client:
                    return client.request(message, 5.0)

            status = await ask(request, StatusRequest())
            assert isinstance(status, RunStatus)
            assert [p.name for p in status.processes] == list(ROLES)
            assert all(p.alive for p in status.processes)
            assert isinstance(await ask(request, Hello("md", 1)), Refused)
            assert isinstance(await ask(request, Hello("nobody", os.getpid())), Refused)

            def rubbish() -> Any:
                with ControlClient(r.socket) as client:
                    client._socket.send(b"\x00 not msgpack")
                    return client.receive(5.0)

            assert isinstance(await ask(rubbish), Refused)
            assert await ask(request, StopRequest()) == Stopping("test")
            assert (await r.finish()).ending is Ending.REQUESTED

    run(scenario)
