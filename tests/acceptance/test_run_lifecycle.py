"""The life of a run as a user sees it: start, stop, and every way in which it can die.

Real processes, through the command line. After each test nothing may be left: no process, no live files, no
control socket.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tapewire.journal import Journal, decode
from tapewire.journal.format import Reason, ReportStatus
from tapewire.runtime.control_plane import socket_path
from tapewire.runtime.environment import process_alive
from tapewire.runtime.manifest import Manifest

CHILDREN = ("md", "td", "ledger", "strategy")
CLI = (sys.executable, "-m", "tapewire")
TOPOLOGY = """
[run]
page_bytes = 1048576
interval_ms = 20

[[instruments]]
symbol = "SIM"
tick = "0.01"
lot = "0.001"

[processes.md]
role = "market_data"
feed = "synthetic"
interval_us = 1000

[processes.td]
role = "trade_gateway"

[processes.ledger]
role = "ledger"

[processes.strategy]
role = "strategy"
strategy = "native:alternating"
params = { every = 5, quantity = "0.001" }
"""


@dataclass
class Bench:
    """A runs directory of its own, and the names of the runs made in it."""

    base: Path
    topology: Path
    started: list[subprocess.Popen[str]]

    def name(self) -> str:
        return f"t{uuid.uuid4().hex[:12]}"

    def cli(self, *arguments: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [*CLI, *arguments],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=self._env(),
            cwd=self.base,
            check=False,
        )

    def run(self, *arguments: str, name: str | None = None) -> tuple[str, subprocess.Popen[str]]:
        """Start `tapewire run` and return when the run is up."""
        name = name or self.name()
        # Into files: a pipe that nobody reads until the end could fill.
        with open(self.output(name), "w") as out, open(self.errors(name), "w") as err:
            process = subprocess.Popen(
                [*CLI, "run", str(self.topology), "--name", name, *arguments],
                stdout=out,
                stderr=err,
                text=True,
                env=self._env(),
                cwd=self.base,
            )
        self.started.append(process)
        until(lambda: "is up" in self.errors(name).read_text() or process.poll() is not None)
        assert process.poll() is None, self.errors(name).read_text()
        return name, process

    def output(self, name: str) -> Path:
        return self.base.parent / f"{name}.out"

    def errors(self, name: str) -> Path:
        return self.base.parent / f"{name}.err"

    def finish(self, name: str, process: subprocess.Popen[str]) -> tuple[int, str, str]:
        """Exit status, output and error output of a `run`, when it has ended."""
        status = process.wait(30)
        return status, self.output(name).read_text(), self.errors(name).read_text()

    def _env(self) -> dict[str, str]:
        return {**os.environ, "TAPEWIRE_RUNS": str(self.base)}

    def manifest(self, name: str) -> Manifest:
        return Manifest.load(self.base / name)

    def state(self, name: str) -> str:
        path = self.base / name / "manifest.json"
        return str(json.loads(path.read_text())["state"]) if path.exists() else ""

    def summary(self, name: str) -> dict[str, Any]:
        result: dict[str, Any] = json.loads((self.base / name / "summary.json").read_text())
        return result

    def kill(self, name: str, process: str) -> None:
        manifest = self.manifest(name)
        pid = manifest.master.pid if process == "master" else manifest.processes[process].pid
        os.kill(pid, signal.SIGKILL)

    def recorded(self, name: str, stream: str) -> int:
        """Frames of `stream` in the run directory alone; they must be numbered without a gap."""
        with Journal.open(self.base / name) as journal:
            seqs = [frame.seq for frame in journal.reader(streams=[stream])]
        assert seqs == list(range(1, len(seqs) + 1))
        return len(seqs)

    def manifests(self) -> list[Manifest]:
        return [Manifest.load(path.parent) for path in self.base.glob("*/manifest.json")]


def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "did not come about"
        time.sleep(0.02)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    topology = tmp_path / "lifecycle.toml"
    topology.write_text(TOPOLOGY)
    bench = Bench(tmp_path / "runs", topology, [])
    bench.base.mkdir()
    try:
        yield bench
    finally:
        left = leftovers(bench)
        for process in bench.started:
            if process.poll() is None:
                process.kill()
            process.wait()
        for manifest in bench.manifests():
            for pid in alive_pids(manifest):
                os.kill(pid, signal.SIGKILL)
            shutil.rmtree(manifest.live_dir, ignore_errors=True)
    assert left == []


def alive_pids(manifest: Manifest) -> list[int]:
    return [p.pid for p in (manifest.master, *manifest.processes.values()) if p.alive]


def leftovers(bench: Bench) -> list[str]:
    """Whatever a run that is over may not leave."""
    found = []
    for manifest in bench.manifests():
        found += [f"process {pid}" for pid in alive_pids(manifest)]
        found += [manifest.live_dir] if Path(manifest.live_dir).exists() else []
        socket = socket_path(bench.base / manifest.name)
        found += [str(path) for path in (socket, socket.with_suffix(".lock")) if path.exists()]
        found += [str(path) for path in (bench.base / manifest.name).glob(".*")]
    return found


def test_a_run_for_a_while(bench: Bench) -> None:
    name, process = bench.run("--for", "1s")
    status, out, err = bench.finish(name, process)
    assert status == 0, err
    assert f"run {name}: stopped" in out
    assert str(bench.base / name) in out
    manifest = bench.manifest(name)
    assert manifest.state == "stopped"
    assert manifest.finished_at > manifest.started_at
    assert all(p.exit_code == 0 and p.cpu for p in manifest.processes.values())
    summary = bench.summary(name)
    assert summary["processes"]["md"]["depths"] > 100
    for stream in ("md", "td", "strategy"):
        assert bench.recorded(name, stream) == summary["processes"][stream]["last_seq"]


def test_the_end_of_the_input_ends_the_run_and_nothing_is_lost(bench: Bench) -> None:
    name = bench.name()
    done = bench.cli(
        *("run", str(bench.topology), "--name", name, "--json"),
        *("--set", "processes.md.events=500", "--set", "processes.md.speed=max"),
        *("--set", "processes.md.pace=free"),
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["state"] == "finished"
    processes = result["processes"]
    assert processes["md"]["depths"] == 500
    assert processes["strategy"]["orders"] == 100
    # Everyone read to the end: what the sources wrote, and what that led to.
    ids = {stream.name: str(stream.id) for stream in bench.manifest(name).streams}
    for reader, streams in {"strategy": ("md", "td"), "td": ("md", "strategy")}.items():
        for stream in streams:
            assert processes[reader]["consumed"][ids[stream]] == processes[stream]["last_seq"]


@pytest.mark.parametrize("child", CHILDREN)
def test_a_killed_child_is_reported_by_name(bench: Bench, child: str) -> None:
    name, process = bench.run()
    bench.kill(name, child)
    status, out, err = bench.finish(name, process)
    assert status == 1
    assert f"error: process {child} was killed by SIGKILL" in err
    assert f"{child}.log" in err
    assert f"run {name}: failed" in out
    assert bench.state(name) == "failed"
    assert bench.manifest(name).processes[child].exit_code == -9


def test_a_child_that_may_die_does_not_end_the_run(bench: Bench) -> None:
    name, process = bench.run("--set", "processes.ledger.on_exit=continue")
    bench.kill(name, "ledger")
    until(lambda: bench.manifest(name).processes["ledger"].exit_code == -9)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    status, _, err = bench.finish(name, process)
    assert (status, bench.state(name)) == (1, "stopped")
    assert "error: process ledger was killed by SIGKILL" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_command_line_stops_the_run_in_order(bench: Bench, number: signal.Signals) -> None:
    name, process = bench.run()
    process.send_signal(number)
    status, _, err = bench.finish(name, process)
    assert status == 0, err
    assert bench.state(name) == "stopped"
    assert all(p.exit_code == 0 for p in bench.manifest(name).processes.values())
    log = (bench.base / name / "logs" / "master.log").read_text()
    order = [
        name
        for line in log.splitlines()
        if '"process ended"' in line
        for name in CHILDREN
        if f"process={name} " in line
    ]
    assert order == ["md", "strategy", "td", "ledger"]


def test_an_interrupt_while_starting_leaves_nothing(bench: Bench) -> None:
    name = bench.name()
    process = subprocess.Popen(
        [*CLI, "run", str(bench.topology), "--name", name],
        stderr=subprocess.PIPE,
        env=bench._env(),
        text=True,
    )
    until(lambda: (bench.base / name / "manifest.json").exists())
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    process.communicate()
    # It may just have come up before the signal arrived: then it was stopped in order.
    assert bench.state(name) in ("", "stopped")


def test_a_killed_command_line_is_not_missed(bench: Bench) -> None:
    name, process = bench.run()
    process.kill()
    process.wait()
    time.sleep(0.3)
    assert len(bench.manifest(name).alive_processes()) == 5
    stopped = bench.cli("stop", name)
    assert stopped.returncode == 0, stopped.stderr
    assert bench.state(name) == "stopped"
    again = bench.cli("stop", name)
    assert again.returncode == 0
    assert "over already" in again.stdout


def test_a_run_for_a_while_ends_without_its_command_line(bench: Bench) -> None:
    name, process = bench.run("--for", "1s")
    process.kill()
    process.wait()
    until(lambda: bench.manifest(name).ended)
    until(lambda: not bench.manifest(name).alive_processes())
    assert bench.state(name) == "stopped"


def test_with_master_killed_data_flows_on_and_stop_works(bench: Bench) -> None:
    name, process = bench.run()
    bench.kill(name, "master")
    status, _, err = bench.finish(name, process)
    assert status == 1
    assert f"tapewire stop {name}" in err
    time.sleep(0.5)
    manifest = bench.manifest(name)
    assert sorted(manifest.alive_processes()) == sorted(CHILDREN)
    stopped = bench.cli("stop", name, "--json")
    assert stopped.returncode == 0, stopped.stderr
    assert json.loads(stopped.stdout)["state"] == "stopped"
    assert bench.state(name) == "stopped"
    # What was written without a master was recorded all the same.
    summary = bench.summary(name)
    assert summary["processes"]["md"]["depths"] > 500
    for stream in ("md", "td", "strategy"):
        assert bench.recorded(name, stream) == summary["processes"][stream]["last_seq"]


def test_with_master_and_a_child_killed_stop_reports_the_child(bench: Bench) -> None:
    name, process = bench.run()
    bench.kill(name, "master")
    bench.kill(name, "strategy")
    bench.finish(name, process)
    stopped = bench.cli("stop", name)
    assert stopped.returncode == 1
    assert "process strategy did not end by itself" in stopped.stderr
    assert bench.state(name) == "failed"


def test_two_runs_of_one_name(bench: Bench) -> None:
    name, process = bench.run()
    second = bench.cli("run", str(bench.topology), "--name", name)
    assert second.returncode == 2
    assert f"tapewire stop {name}" in second.stderr
    assert len(second.stderr.strip().splitlines()) == 1
    elsewhere = bench.cli("run", str(bench.topology), "--name", name, "--runs-dir", str(bench.base / "other"))
    assert elsewhere.returncode == 2
    assert not (bench.base / "other" / name).exists()
    assert len(bench.manifest(name).alive_processes()) == 5
    process.send_signal(signal.SIGTERM)
    assert bench.finish(name, process)[0] == 0
    third = bench.cli("run", str(bench.topology), "--name", name)
    assert third.returncode == 2
    assert "--name" in third.stderr


def test_after_a_kill_of_everything_prune_clears_the_name(bench: Bench) -> None:
    name, process = bench.run()
    manifest = bench.manifest(name)
    for pid in (process.pid, *alive_pids(manifest)):
        os.kill(pid, signal.SIGKILL)
    process.wait()
    until(lambda: not alive_pids(manifest))
    assert bench.manifest(name).status() == "crashed"
    shutil.move(bench.base / name, bench.base / "moved")  # the name is taken in shared memory alone
    refused = bench.cli("run", str(bench.topology), "--name", name)
    assert refused.returncode == 2
    assert "tapewire runs prune" in refused.stderr
    shutil.move(bench.base / "moved", bench.base / name)
    pruned = bench.cli("runs", "prune")
    assert pruned.returncode == 0, pruned.stderr
    assert manifest.live_dir in pruned.stdout
    assert bench.state(name) == "failed"
    assert bench.recorded(name, "md") > 0


def test_stop_of_a_crashed_run_records_the_rest(bench: Bench) -> None:
    name, process = bench.run()
    manifest = bench.manifest(name)
    for pid in (process.pid, *alive_pids(manifest)):
        os.kill(pid, signal.SIGKILL)
    process.wait()
    until(lambda: not alive_pids(manifest))
    stopped = bench.cli("stop", name)
    assert stopped.returncode == 1
    assert bench.state(name) == "failed"
    # Every frame that was committed before the kill is in the run directory.
    assert bench.recorded(name, "md") >= bench.summary(name)["processes"]["md"]["last_seq"]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("processes.md.cpu=4095", "processes.md.cpu"),
        ("processes.strategy.strategy=nowhere.py:X", "nowhere.py"),
        ("run.live_dir=/nonexistent", "run.live_dir"),
        ("processes.md.intervall_us=5", "interval_us"),
    ],
)
def test_bad_configuration_is_one_line_and_leaves_nothing(bench: Bench, override: str, said: str) -> None:
    done = bench.cli("run", str(bench.topology), "--set", override)
    assert done.returncode == 2
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert said in lines[0]
    assert list(bench.base.iterdir()) == []


def in_small_file_system(
    bench: Bench, directory: Path, size: str, *arguments: str
) -> tuple[str, list[str], str]:
    """Run `tapewire run` with a file system of `size` at `directory`, in a mount namespace of our own.

    Returns its exit status, its error lines, and what it left there and in /dev/shm.
    """
    directory.mkdir()
    listing = f'ls -A "{directory}"; find /dev/shm -name "*{bench.base.parent.name}*"'
    script = f'mount -t tmpfs -o size={size} none "{directory}"; "$@"; echo "status $?"; {listing}'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", *CLI, "run", str(bench.topology), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=bench._env(),
        cwd=bench.base,
        check=False,
    )
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    _, _, after = done.stdout.rpartition("status ")
    status, _, left = after.partition("\n")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    return status, errors, left.strip()


@pytest.mark.parametrize("place", ["run.live_dir", "runs"])
def test_no_space_at_the_start_is_one_line_and_leaves_nothing(
    bench: Bench, tmp_path: Path, place: str
) -> None:
    small = tmp_path / "small"
    where = ("--runs-dir", str(small)) if place == "runs" else ("--set", f"run.live_dir={small}")
    status, errors, left = in_small_file_system(bench, small, "512k", *where)
    assert (status, left) == ("2", "")
    assert len(errors) == 1
    assert str(small) in errors[0]
    assert "1048576 bytes" in errors[0] or "14680064 bytes" in errors[0]
    assert list(bench.base.iterdir()) == []


def test_no_space_later_in_the_live_directory(bench: Bench, tmp_path: Path) -> None:
    name, small = bench.name(), tmp_path / "small"
    status, errors, left = in_small_file_system(
        *(bench, small, "17m", "--name", name, "--set", f"run.live_dir={small}"),
        *("--set", "processes.md.speed=max", "--set", "processes.md.pace=free"),
    )
    assert (status, left) == ("2", "")
    assert str(small) in errors[0]
    assert "1048576 bytes" in errors[0]
    assert bench.state(name) == "failed"
    assert bench.recorded(name, "md") > 0


def test_no_space_later_in_the_run_directory(bench: Bench, tmp_path: Path) -> None:
    name, small = bench.name(), tmp_path / "small"
    status, errors, left = in_small_file_system(
        *(bench, small, "6m", "--name", name, "--runs-dir", str(small)),
        *("--set", "processes.md.speed=max", "--set", "processes.md.pace=free"),
    )
    assert (status, left) == ("2", name)
    assert str(small / name) in errors[0]
    assert "bytes" in errors[0]


STRATEGY = """
import sys, time
from tapewire import Strategy

if sys.argv[0].endswith("processes/__main__.py"):
    time.sleep({sleep_s})

class Mine(Strategy):
    def on_depth(self, depth):
        if depth.seq >= {fail_at}:
            raise ValueError("not what I expected")
"""


def python_strategy(bench: Bench, *, sleep_s: float = 0.0, fail_at: int = 2**62) -> tuple[str, ...]:
    """Options for a strategy that is slow to start, or fails at a depth."""
    path = bench.base.parent / "mine.py"
    path.write_text(STRATEGY.format(sleep_s=sleep_s, fail_at=fail_at))
    return ("--set", f"processes.strategy.strategy={path}:Mine", "--set", "processes.strategy.params={}")


def test_a_failing_strategy_shows_where(bench: Bench) -> None:
    name = bench.name()
    done = bench.cli("run", str(bench.topology), "--name", name, *python_strategy(bench, fail_at=50))
    assert done.returncode == 1
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: process strategy")]
    assert "mine.py: line 11" in error
    assert "ValueError: not what I expected" in error
    assert "frame 50" in error
    # The end of its log has the traceback of the user's code.
    assert 'raise ValueError("not what I expected")' in done.stderr
    assert bench.state(name) == "failed"


def test_a_start_that_takes_too_long_names_who_is_missing(bench: Bench) -> None:
    slow = python_strategy(bench, sleep_s=30)
    done = bench.cli("run", str(bench.topology), *slow, "--set", "run.start_timeout_s=2.0")
    assert done.returncode == 1
    assert "error: not ready after 2 s: strategy" in done.stderr
    assert list(bench.base.iterdir()) == []


def test_a_master_killed_while_starting_takes_its_children_along(bench: Bench) -> None:
    name = bench.name()
    process = subprocess.Popen(
        [*CLI, "run", str(bench.topology), "--name", name, *python_strategy(bench, sleep_s=5)],
        stderr=subprocess.PIPE,
        env=bench._env(),
        text=True,
    )
    until(lambda: bench.state(name) == "starting" and bench.manifest(name).processes["td"].pid > 0)
    manifest = bench.manifest(name)
    bench.kill(name, "master")
    assert process.wait(30) == 1
    assert "master was killed by SIGKILL before the run was up" in process.communicate()[1]
    assert alive_pids(manifest) == []
    assert not Path(manifest.live_dir).exists()
    assert list(bench.base.iterdir()) == []
    assert not Path(manifest.control_socket).exists()


def test_the_venue_cancels_the_orders_of_a_killed_strategy(bench: Bench) -> None:
    spread = {
        "processes.strategy.strategy": "tapewire.examples.spread_quoting:SpreadQuoting",
        "processes.strategy.params": '{ size = "0.001", offset_ticks = 50 }',
        "processes.strategy.on_exit": "continue",
    }
    options = [word for key, value in spread.items() for word in ("--set", f"{key}={value}")]
    name, process = bench.run(*options)
    time.sleep(1.0)
    bench.kill(name, "strategy")
    until(lambda: bench.manifest(name).processes["strategy"].exit_code == -9)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    assert bench.finish(name, process)[0] == 1
    with Journal.open(bench.base / name) as journal:
        reports = [decode(frame) for frame in journal.reader(streams=["td"], types=["order_report"])]
    cancelled = [r for r in reports if r["reason"] == Reason.STRATEGY_FAILED]
    assert len(cancelled) == 2  # a quote on each side
    assert all(r["status"] == ReportStatus.CANCELLED for r in cancelled)
    assert bench.summary(name)["processes"]["td"]["open_orders"] == 0


def test_what_the_system_refuses_is_said(bench: Bench) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing is refused to root")
    name, process = bench.run("--for", "500ms", "--set", "processes.md.nice=-5")
    status, _, err = bench.finish(name, process)
    assert status == 0
    assert "warning: process md: nice -5" in err


def test_private_memory_of_each_process(bench: Bench) -> None:
    name, process = bench.run()
    until(lambda: bench.manifest(name).state == "running")
    manifest = bench.manifest(name)
    private = {}
    for process_name, identity in {"master": manifest.master, **manifest.processes}.items():
        assert process_alive(identity.pid, identity.start_time)
        status = Path(f"/proc/{identity.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("RssAnon:")]
        private[process_name] = int(line.split()[1]) / 1024
    process.send_signal(signal.SIGTERM)
    assert bench.finish(name, process)[0] == 0
    assert max(private.values()) <= 40, private
