"""Bad input through the real command line: one line, exit status 2, and nothing left behind."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tapewire import _native
from tapewire.cli import COMMANDS
from tapewire.journal import Journal, Writer
from tapewire.runtime.topology import bundled_topologies

UNPINNED = ("processes.strategy.cpu=any", "processes.md.speed=max")


@dataclass
class Shell:
    """A working directory with a runs directory of its own."""

    home: Path
    runs: Path

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "tapewire", *arguments]

    def run(self, command: list[str], timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.home,
            env={**os.environ, "TAPEWIRE_RUNS": str(self.runs)},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def refused(self, *arguments: str, command: list[str] | None = None, status: int = 2) -> str:
        """The one line that a command is refused with."""
        result = self.run(command or self.command(*arguments))
        assert result.returncode == status, result.stdout + result.stderr
        assert "Traceback" not in result.stdout + result.stderr
        lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, result.stderr
        assert len(result.stderr.splitlines()) == 1, result.stderr
        return lines[0]

    def leftovers(self) -> list[str]:
        """Run directories, live directories and processes that belong to this test."""
        left = [str(path) for path in self.runs.iterdir()] if self.runs.is_dir() else []
        for process in Path("/proc").iterdir():
            if process.name.isdecimal() and int(process.name) != os.getpid():
                try:
                    command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                except OSError:
                    continue
                if str(self.runs) in command:
                    left.append(command)
        return left


def live_directories() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("tapewire-*")}


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path, tmp_path / "runs")
    before = live_directories()
    yield shell
    # Other tests may have live runs of their own; ours are named after topologies of this file.
    assert not {name for name in live_directories() - before if "clierr" in name}


@pytest.fixture
def topology(shell: Shell) -> Path:
    path = shell.home / "clierr.toml"
    path.write_text(bundled_topologies()["demo"].read_text())
    return path


@pytest.fixture
def recorded(shell: Shell) -> Callable[[bytes], list[str]]:
    """The command that replays these bytes as a recording."""
    bundled = bundled_topologies()["binance"].read_text()
    (shell.home / "clierr.toml").write_text(bundled)

    def command(content: bytes, name: str = "day.gz") -> list[str]:
        (shell.home / name).write_bytes(content)
        sets = [part for override in UNPINNED for part in ("--set", override)]
        return shell.command("run", "clierr.toml", "--input", name, *sets)

    return command


# ---- the command line itself ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rum",), "no command 'rum' — did you mean 'run'?"),
        (("--fast",), "No such option"),
        (("run",), "Missing argument"),
        (("run", "demo", "--fro", "3s"), "No such option"),
        (("run", "demo", "--for", "soon"), "not a duration"),
        (("journal", "cat"), "Missing argument"),
        (("journal", "cat", "last", "--limit", "many"), "many"),
        (("runs", "prune", "--keep", "-1"), "-1"),
    ],
)
def test_usage(shell: Shell, arguments: tuple[str, ...], message: str) -> None:
    assert message in shell.refused(*arguments)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(shell: Shell, name: str) -> None:
    result = shell.run(shell.command(name, "--help"))
    assert result.returncode == 0, result.stderr
    assert re.search(rf"^ *tapewire {name}", result.stdout, re.MULTILINE), result.stdout


def test_help_and_mistakes_import_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from tapewire.cli import run_cli\n"
        "run_cli(['--help']); run_cli(['rum']); run_cli(['run', '--fast'])\n"
        "heavy = {'numpy', 'zmq', 'polars', 'plotly', 'uvloop', 'structlog', 'psutil'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr.splitlines()[-1] == "[]"


# ---- topologies -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "processes.md.intervall_us=1",
            "--set: processes.md.intervall_us: unknown key .*did you mean 'interval_us'",
        ),
        ("processes.md.interval_us=fast", 'processes.md.interval_us: expected int, got str "fast"'),
        ("processes.md.cpu=4096", "processes.md.cpu: CPU 4096 is not among those"),
        ("processes.td.sched=fifo 5", "processes.td.sched: .*real-time throttling"),
        ("processes.strategy.strategy=mine.py:Mine", "processes.strategy.strategy: no such file: mine.py"),
        ("processes.strategy.params.size=-1", "processes.strategy.params.*size"),
        ("run.live_dir=/no/where", "run.live_dir: /no/where is not a directory"),
        ("processes.mdd.cpu=1", "did you mean 'md'"),
    ],
)
def test_overrides(shell: Shell, topology: Path, override: str, message: str) -> None:
    assert re.search(message, shell.refused("run", str(topology), "--set", override))
    assert shell.leftovers() == []


def test_a_key_in_the_file(shell: Shell, topology: Path) -> None:
    topology.write_text(topology.read_text().replace("interval_us = 2000", 'interval_us = "2 ms"'))
    assert shell.refused("run", "clierr.toml").startswith(
        'error: clierr.toml: processes.md.interval_us: expected int, got str "2 ms"'
    )


def test_no_such_topology(shell: Shell) -> None:
    assert "did you mean 'demo'" in shell.refused("run", "dmeo")
    assert "x.toml: no such topology file" in shell.refused("run", "x.toml")


def test_a_strategy_that_cannot_be_imported(shell: Shell, topology: Path) -> None:
    (shell.home / "mine.py").write_text(
        "from tapewire import Strategy\n\nclass Mine(Strategy):\n    x = 1 / 0\n"
    )
    line = shell.refused("run", str(topology), "--set", "processes.strategy.strategy=mine.py:Mine")
    assert "mine.py: line 4" in line
    (shell.home / "mine.py").write_text("class Mine:\n  def\n")
    line = shell.refused("run", str(topology), "--set", "processes.strategy.strategy=mine.py:Mine")
    assert "mine.py: line 2: not valid Python" in line
    assert shell.leftovers() == []


# ---- recordings -------------------------------------------------------------------------------------


def test_a_missing_recording(shell: Shell) -> None:
    sets = ("--set", UNPINNED[0])
    assert (
        shell.refused("run", "binance", "--input", "nowhere.gz", *sets)
        == "error: --input: no such file: nowhere.gz"
    )
    assert "give it with --input FILE" in shell.refused("run", "binance", *sets)
    assert "which reads no file" in shell.refused("run", "demo", "--input", "nowhere.gz")
    assert shell.leftovers() == []


LINES = [
    b'1723161253000000000 {"stream":"btcusdt@bookTicker","data":{"u":1,"s":"BTCUSDT","b":"61685.99",'
    b'"B":"1.0","a":"61686.00","A":"2.0"}}\n',
    b'1723161253000000100 {"stream":"btcusdt@bookTicker","data":{"u":2,"s":"BTCUSDT","b":"61685.99",'
    b'"B":"1.5","a":"61686.00","A":"2.0"}}\n',
]


def test_a_truncated_gzip(shell: Shell, recorded: Callable[[bytes], list[str]]) -> None:
    whole = gzip.compress(b"".join(LINES) * 500, mtime=0)
    line = shell.refused(command=recorded(whole[: len(whole) // 2]))
    assert "day.gz" in line
    assert shell.leftovers() == []


def test_a_malformed_line(shell: Shell, recorded: Callable[[bytes], list[str]]) -> None:
    line = shell.refused(command=recorded(gzip.compress(LINES[0] + b'1723161253000000050 {"stream":\n')))
    assert "day.gz: line 2" in line
    assert shell.leftovers() == []


def test_a_recording_out_of_order(shell: Shell, recorded: Callable[[bytes], list[str]]) -> None:
    line = shell.refused(command=recorded(gzip.compress(LINES[1] + LINES[0])))
    assert "day.gz: line 2" in line
    assert shell.leftovers() == []


# ---- runs -------------------------------------------------------------------------------------------


def test_a_run_directory_that_exists(shell: Shell, topology: Path) -> None:
    (shell.runs / "clierr").mkdir(parents=True)
    line = shell.refused("run", str(topology), "--name", "clierr")
    assert "run 'clierr' exists already" in line
    assert list((shell.runs / "clierr").iterdir()) == []


def test_a_name_that_cannot_be_one(shell: Shell, topology: Path) -> None:
    assert "not a run name" in shell.refused("run", str(topology), "--name", "../clierr")
    assert "word of the command line" in shell.refused("run", str(topology), "--name", "last")


def test_two_runs_with_one_name(shell: Shell, topology: Path) -> None:
    name = f"clierr{uuid.uuid4().hex[:8]}"
    first = subprocess.Popen(
        shell.command("run", str(topology), "--name", name, "--quiet"),
        cwd=shell.home,
        env={**os.environ, "TAPEWIRE_RUNS": str(shell.runs)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30
        while not (Path("/dev/shm") / f"tapewire-{name}").is_dir():
            assert first.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert f"tapewire stop {name}" in shell.refused("run", str(topology), "--name", name)
        elsewhere = shell.refused(
            "run", str(topology), "--name", name, "--runs-dir", str(shell.home / "other")
        )
        assert f"run '{name}' exists already" in elsewhere
    finally:
        shell.run(shell.command("stop", name))
        first.wait(30)
    assert not (shell.home / "other" / name).exists()
    assert name not in {path.removeprefix("tapewire-") for path in live_directories()}


@pytest.mark.parametrize("place", ["live", "runs"])
def test_no_space(shell: Shell, topology: Path, place: str) -> None:
    """On a file system of 1 MiB, in a mount namespace of its own."""
    small = shell.home / "small"
    small.mkdir()
    override = f"run.live_dir={small}" if place == "live" else "run.durability=interval"
    runs = shell.runs if place == "live" else small / "runs"
    run = " ".join(shell.command("run", str(topology), "--set", override, "--runs-dir", str(runs)))
    script = (
        f"mount -t tmpfs -o size=1m none {small} || exit 77; {run}; status=$?; find {small} >&3; exit $status"
    )
    namespace = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    command = [*namespace, "bash", "-c", f"exec 3>{shell.home}/found; {script}"]
    if shutil.which("unshare") is None or shell.run([*namespace, "true"]).returncode != 0:
        pytest.skip("no mount namespaces here")
    line = shell.refused(command=command)
    assert re.search(r"small.*: no space for .* bytes", line), line
    assert (shell.home / "found").read_text().splitlines() == [str(small)]
    assert shell.leftovers() == []


@pytest.mark.parametrize("command", ["stop", "journal cat", "analyze", "aggregate", "positions", "orders"])
def test_runs_that_are_none(shell: Shell, command: str) -> None:
    (shell.runs / "empty").mkdir(parents=True)
    assert "nowhere" in shell.refused(*command.split(), "nowhere")
    assert "not a run directory" in shell.refused(*command.split(), "empty")


def test_no_last_run_yet(shell: Shell) -> None:
    assert "start one with `tapewire run TOPOLOGY`" in shell.refused("journal", "ls", "last")


# ---- journals ---------------------------------------------------------------------------------------


@pytest.fixture
def journal(shell: Shell) -> Path:
    """The only page of a small run."""
    run = shell.runs / "old"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text('{"format": 1, "name": "old", "run_id": 1, "state": "finished"}')
    with Writer(run, "md", 1, page_bytes=65536) as writer:
        for number in range(10):
            writer.append("text", str(number).encode())
    (page,) = (run / "journal" / "md").glob("*.page")
    return page


def patch(path: Path, offset: int, content: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(content)


@pytest.mark.parametrize("command", ["ls", "cat", "tail", "stat"])
def test_a_journal_of_another_version(shell: Shell, journal: Path, command: str) -> None:
    patch(journal, 8, (7).to_bytes(4, "little"))
    header = journal.read_bytes()[:80]
    patch(journal, 80, _native.crc32c(header).to_bytes(4, "little"))
    before = journal.read_bytes()
    line = shell.refused("journal", command, "old")
    assert str(journal) in line
    assert "version 7" in line
    assert journal.read_bytes() == before


@pytest.mark.parametrize("command", ["ls", "cat", "tail", "stat"])
def test_a_page_that_is_no_journal(shell: Shell, journal: Path, command: str) -> None:
    patch(journal, 0, b"GIF89a..")
    assert str(journal) in shell.refused("journal", command, "old")


def test_a_damaged_frame_names_its_place(shell: Shell, journal: Path) -> None:
    frame = Journal.open(shell.runs / "old").page("md", 1)
    assert frame["frames"] == 10
    patch(journal, 128 + 56, b"\xff")
    line = shell.refused("journal", "cat", "old", "--json", status=1)
    assert str(journal) in line


def test_a_manifest_of_another_version(shell: Shell, journal: Path) -> None:
    (shell.runs / "old" / "manifest.json").write_text('{"format": 99}')
    assert "manifest format 99" in shell.refused("journal", "cat", "old")
    (shell.runs / "old" / "manifest.json").write_text("{")
    assert "not a manifest" in shell.refused("journal", "cat", "old")


def test_filters_that_are_none(shell: Shell, journal: Path) -> None:
    assert "did you mean 'depth'" in shell.refused("journal", "cat", "old", "--type", "dpth")
    assert "its streams are md" in shell.refused("journal", "cat", "old", "--stream", "mdd")
    assert "not a time" in shell.refused("journal", "cat", "old", "--from-time", "yesterday")
