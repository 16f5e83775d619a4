"""Mistakes that were made once, each by name: through the real command line, as whoever met them did."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tapewire.journal import Journal
from tapewire.runtime.rundir import RunDir
from tapewire.runtime.stop import stop_run

CLI = [sys.executable, "-P", "-m", "tapewire"]
STRATEGY = (
    "from tapewire import Strategy\n\nclass Mine(Strategy):\n    def on_depth(self, depth):\n        {}\n"
)
MINE = ("--set", "processes.strategy.strategy=mine.py:Mine")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    before = {path.name for path in Path("/dev/shm").glob("tapewire-regress*")}
    yield tmp_path
    assert {path.name for path in Path("/dev/shm").glob("tapewire-regress*")} <= before


def run_name() -> str:
    return f"regress{uuid.uuid4().hex[:8]}"


def tapewire(home: Path, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    command = [*CLI, *arguments]
    return subprocess.run(command, cwd=home, text=True, timeout=60, check=False, **streams)  # type: ignore[call-overload,no-any-return]


def refused(home: Path, *arguments: str, status: int = 2) -> str:
    result = tapewire(home, *arguments)
    assert result.returncode == status, result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: "), line
    return line


# ---- bad values that came through to a process, and ended there in a traceback -------------------------


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("run.start_timeout_s=inf", "run.start_timeout_s: expected float <= 86400"),
        ("instruments.1.maker_fee=2", "instruments.1.maker_fee: a fee is a fraction of the notional"),
        ("instruments.DEMO.taker_fee=-1.5", "instruments.1.taker_fee: a fee is a fraction of the notional"),
        ("processes.md.speed=0.0000001x", "processes.md.speed: not a speed"),
        (f"processes.md.speed={'9' * 400}x", "processes.md.speed: not a speed"),
        ("processes.md.cpu=[]", "processes.md.cpu: an empty list names no CPU"),
    ],
)
def test_a_value_that_no_process_can_use_is_refused_before_the_run(
    home: Path, override: str, message: str
) -> None:
    assert message in refused(home, "run", "demo", "--set", override)
    assert not (home / "runs").exists()


def test_parameters_of_another_strategy_are_not_handed_to_mine(home: Path) -> None:
    (home / "mine.py").write_text(STRATEGY.format("pass"))
    result = tapewire(home, "run", "demo", "--for", "100ms", "--name", run_name(), *MINE)
    assert result.returncode == 0, result.stderr
    line = refused(home, "run", "demo", "--set", "processes.strategy.params.x=1", *MINE)
    assert line == "error: --set: processes.strategy.params.x: unknown key — it has none"


def test_a_wrong_parameter_is_blamed_on_the_command_line_that_set_it(home: Path) -> None:
    line = refused(home, "run", "demo", "--set", "processes.strategy.params.sise=1")
    assert line.startswith("error: --set: processes.strategy.params.sise: unknown key — did you mean 'size'?")


# ---- what leaves a strategy ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise SystemExit(3)", r"mine.py: line 5: SystemExit: 3 in on_depth at depth frame 1 of stream md"),
        ("raise KeyboardInterrupt", r"line 5: KeyboardInterrupt in on_depth at depth frame 1 of stream md"),
        (
            "raise type('Bad', (Exception,), {'__str__': lambda self: 1})()",
            r"line 5: Bad: \(an exception whose text cannot be made\) in on_depth at depth frame 1",
        ),
    ],
)
def test_whatever_leaves_a_strategy_names_its_line_and_frame(home: Path, code: str, message: str) -> None:
    (home / "mine.py").write_text(STRATEGY.format(code))
    result = tapewire(home, "run", "demo", "--for", "5s", "--name", run_name(), *MINE)
    assert result.returncode == 1
    assert re.search(message, result.stderr.splitlines()[-1]), result.stderr


def test_a_method_of_another_signature_is_not_blamed_on_our_file(home: Path) -> None:
    (home / "mine.py").write_text(STRATEGY.replace("self, depth", "self").format("pass"))
    result = tapewire(home, "run", "demo", "--for", "5s", "--name", run_name(), *MINE)
    last = result.stderr.splitlines()[-1]
    assert re.search(r"status 1( while starting)?: TypeError: Mine.on_depth\(\) takes 1 positional", last), (
        last
    )


# ---- surroundings ----------------------------------------------------------------------------------------


def test_a_users_modules_shadow_nothing(home: Path) -> None:
    for module in ("journal", "runtime", "queue", "random", "numpy", "zmq"):
        (home / f"{module}.py").write_text("raise RuntimeError('shadowed')\n")
    result = tapewire(home, "run", "demo", "--for", "100ms", "--name", run_name())
    assert result.returncode == 0, result.stderr


def test_a_working_directory_that_is_gone(home: Path) -> None:
    (home / "gone").mkdir()
    code = f"import os, sys; os.rmdir({str(home / 'gone')!r}); os.execv(sys.executable, {[*CLI, 'runs']!r})"
    script = [sys.executable, "-c", code]
    result = subprocess.run(
        script, cwd=home / "gone", capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: the working directory")


def test_a_path_that_is_no_text(home: Path) -> None:
    name = os.fsdecode(b"runs-\xff")
    assert "not UTF-8 text" in refused(home, "run", "demo", "--runs-dir", name)


def test_output_that_cannot_be_written(home: Path) -> None:
    with open("/dev/full", "w") as full:
        result = tapewire(home, "runs", stdout=full)
    assert (result.returncode, result.stderr) == (1, "error: No space left on device\n")


def test_an_output_that_is_closed(home: Path) -> None:
    script = f"{' '.join(CLI)} run demo --for 100ms --name {run_name()} >&- 2>&- <&-"
    assert subprocess.run(["bash", "-c", script], cwd=home, timeout=60, check=False).returncode == 0


def test_a_terminal_that_knows_only_ascii(home: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = tapewire(home, "run", "demo", "--for", "300ms", "--name", run_name(), env=environment)
    assert result.returncode == 0, result.stderr
    assert "?s" in result.stdout  # µs


def test_no_figure_is_cut_short_on_a_narrow_terminal(home: Path) -> None:
    command = [*CLI, "run", "demo", "--for", "600ms", "--name", run_name()]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(home)
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.environ.pop("COLUMNS", None)
        os.environ["TERM"] = "xterm"
        os.execv(command[0], command)
    shown = b""
    with contextlib.suppress(OSError):  # the other end has closed
        while data := os.read(terminal, 65536):
            shown += data
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown
    assert "…" not in shown.decode()
    assert "max backlog" in shown.decode()


def test_aggregate_fails_in_one_line(home: Path) -> None:
    run = home / "runs" / "old"
    (run / "journal" / "md").mkdir(parents=True)
    (run / "journal" / "md" / "00000001.page").write_bytes(b"")
    (run / "manifest.json").write_text('{"format": 1, "name": "old", "run_id": 1, "state": "finished"}')
    refused(home, "aggregate", "old")


# ---- runs ------------------------------------------------------------------------------------------------


def test_a_run_that_is_just_starting_is_not_offered_for_removal(home: Path) -> None:
    (home / "runs" / "regress").mkdir(parents=True)
    line = refused(home, "run", "demo", "--name", "regress")
    assert "it may be starting just now" in line
    assert "remove that directory" not in line


def test_stop_waits_for_the_master_of_a_run_whose_launcher_was_killed(home: Path) -> None:
    """Between the first manifest and the one in which master notes its pid, nothing seems to be alive."""
    name = run_name()
    launcher = subprocess.Popen(
        [*CLI, "run", "demo", "--name", name, "--quiet"],
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    manifest = home / "runs" / name / "manifest.json"
    while not manifest.exists():
        assert launcher.poll() is None
        time.sleep(0.001)
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    killed_early = not json.loads(manifest.read_text())["master"]["pid"]
    result = stop_run(RunDir(manifest.parent))
    if killed_early and not (home / "runs" / name / "logs" / "master.log").exists():
        return  # killed before it could start a master: there is nothing to wait for
    assert result.state in ("cancelled", "stopped"), result
    assert not Path(f"/dev/shm/tapewire-{name}").exists()


# ---- a strategy's own mistakes ---------------------------------------------------------------------------


def test_a_misspelt_event_method_is_refused(home: Path) -> None:
    (home / "mine.py").write_text(STRATEGY.format("pass").replace("on_depth", "on_dept"))
    line = refused(home, "run", "demo", *MINE)
    assert "on_dept, which is no event" in line
    assert "did you mean on_depth?" in line


def test_a_forked_strategy_does_not_write_twice(home: Path) -> None:
    (home / "mine.py").write_text(
        "import os\n" + STRATEGY.format("if depth.seq == 3: os.fork()\n        self.buy(1, '90.00', '0.001')")
    )
    name = run_name()
    result = tapewire(home, "run", "demo", "--for", "1s", "--name", name, *MINE)
    assert result.returncode == 0, result.stderr
    headers = Journal.open(home / "runs" / name).headers(["strategy"])  # every CRC and seq is checked
    assert len(headers) > 10


def test_a_stream_that_a_copy_lost_is_named(home: Path) -> None:
    name = run_name()
    assert tapewire(home, "run", "demo", "--for", "300ms", "--quiet", "--name", name).returncode == 0
    shutil.copytree(home / "runs" / name, home / "copy")
    shutil.rmtree(home / "copy" / "journal" / "td")
    for command in ("positions", "orders", "analyze"):
        result = tapewire(home, command, "copy")
        assert "warning: " in result.stderr
        assert "no pages of stream td; left out below" in result.stderr, command
        assert "warning" not in tapewire(home, command, name).stderr
