"""Run directories, manifests, and what is left of dead runs."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from tapewire.journal.errors import JournalFull, RunNotFound, TapewireError
from tapewire.runtime.config import Topology
from tapewire.runtime.cpu import allowed_cpus
from tapewire.runtime.effective import resolve
from tapewire.runtime.environment import boot_id, clock_anchor, process_alive, process_start_time, versions
from tapewire.runtime.errors import ConfigError, RunExists
from tapewire.runtime.manifest import Manifest, ManifestInvalid, ProcessIdentity, new_manifest
from tapewire.runtime.prune import live_bases, prune_live, prune_runs
from tapewire.runtime.rundir import (
    RunDir,
    create_live_dir,
    create_run,
    find_run,
    list_runs,
    live_dir_of,
    runs_base,
    trusted_live_dir,
)
from tapewire.runtime.topology import load_topology

DEAD = ProcessIdentity(pid=2**22 + 1, start_time=1)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    (tmp_path / "live").mkdir()
    return load_topology("demo", [f"run.live_dir={tmp_path}/live", "run.page_bytes=65536"])


def me() -> ProcessIdentity:
    start_time = process_start_time(os.getpid())
    assert start_time is not None
    return ProcessIdentity(pid=os.getpid(), start_time=start_time)


def start(
    base: Path, topology: Topology, name: str | None = None, *, master: ProcessIdentity = DEAD
) -> RunDir:
    """A run directory with a manifest that says "running", as a master leaves it."""
    run = create_run(base, name, topology)
    manifest = new_manifest(
        topology,
        resolve(topology, allowed_cpus()).values(),
        name=run.name,
        live_dir=live_dir_of(topology.run.live_dir, run.name),
        argv=["run", "demo"],
        clock=clock_anchor(),
        versions=versions(),
        environment={},
    )
    manifest.state = "running"
    manifest.master = master
    manifest.save(run.path)
    create_live_dir(manifest, run)
    return run


def end(run: RunDir, state: str = "finished") -> None:
    manifest = run.manifest()
    manifest.state = state  # type: ignore[assignment]
    manifest.save(run.path)
    Path(manifest.live_dir, "owner.json").unlink()
    Path(manifest.live_dir).rmdir()


def test_base(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TAPEWIRE_RUNS", raising=False)
    assert runs_base() == Path.cwd() / "runs"
    monkeypatch.setenv("TAPEWIRE_RUNS", str(tmp_path))
    assert runs_base() == tmp_path
    assert runs_base("elsewhere") == Path.cwd() / "elsewhere"


def test_default_names_are_numbered_when_taken(base: Path, topology: Topology) -> None:
    now = datetime(2024, 8, 8, 23, 54, 13)
    names = [create_run(base, None, topology, now=now).name for _ in range(3)]
    assert names == ["demo-20240808-235413", "demo-20240808-235413-2", "demo-20240808-235413-3"]


@pytest.mark.parametrize("name", ["", "last", "../x", "a/b", ".hidden", "a b", "x" * 65, "é", "-x"])
def test_names_that_no_run_can_have(base: Path, topology: Topology, name: str) -> None:
    with pytest.raises(ConfigError):
        create_run(base, name, topology)
    assert not base.exists()


def test_a_name_is_taken_once(base: Path, topology: Topology) -> None:
    run = start(base, topology, "mine")
    with pytest.raises(RunExists, match="choose another name") as caught:
        create_run(base, "mine", topology)
    assert caught.value.exit_status == 2
    manifest = run.manifest()
    manifest.master = me()
    manifest.save(run.path)
    with pytest.raises(RunExists, match="tapewire stop mine"):
        create_run(base, "mine", topology)


def test_a_live_run_of_that_name_elsewhere(tmp_path: Path, base: Path, topology: Topology) -> None:
    run = start(base, topology, "mine")
    with pytest.raises(RunExists, match="tapewire runs prune"):
        create_run(tmp_path / "other", "mine", topology)
    assert not (tmp_path / "other" / "mine").exists()
    with pytest.raises(RunExists):
        create_live_dir(run.manifest(), run)


def test_no_space_is_told_before_anything_is_made(base: Path, topology: Topology) -> None:
    import msgspec

    run = msgspec.structs.replace(topology.run, page_bytes=2**60)
    with pytest.raises(JournalFull) as caught:
        create_run(base, "mine", msgspec.structs.replace(topology, run=run))
    assert caught.value.exit_status == 2
    assert not base.exists()


def test_a_base_that_cannot_be_made(tmp_path: Path, topology: Topology) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot create a run"):
        create_run(tmp_path / "file" / "runs", "mine", topology)


def test_find(base: Path, topology: Topology, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunNotFound, match="no run in"):
        find_run("last", base)
    first, second = start(base, topology, "first"), start(base, topology, "second")
    assert find_run("last", base) == second
    assert find_run("first", base) == first
    assert find_run(str(first.path), Path("/nowhere")) == first
    monkeypatch.chdir(base)
    assert find_run("second", Path("/nowhere")).path == second.path
    with pytest.raises(RunNotFound, match="did you mean 'second'"):
        find_run("secnd", base)
    (base / "empty").mkdir()
    with pytest.raises(RunNotFound, match="not a run directory"):
        find_run("empty", base)
    assert [info.run.name for info in list_runs(base)] == ["first", "second"]


def test_manifest_survives(base: Path, topology: Topology) -> None:
    run = start(base, topology, "mine")
    manifest = run.manifest()
    assert manifest.topology_config() == topology
    assert manifest.instrument_list() == list(topology.instruments)
    assert manifest.streams == list(topology.streams())
    assert manifest.processes["md"].log == "logs/md.log"
    assert 0 < manifest.run_id < 2**63
    manifest.save(run.path)
    assert run.manifest() == manifest
    assert [entry.name for entry in run.path.iterdir()] == ["manifest.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a manifest"),
        ("{", "not a manifest"),
        ('{"format": 1}', "not a manifest"),
        ('{"format": 2}', "manifest format 2"),
        ('{"format": 1, "name": 3, "run_id": 1}', "not a manifest"),
    ],
)
def test_manifests_that_are_none(base: Path, text: str, message: str) -> None:
    (base / "mine").mkdir(parents=True)
    (base / "mine" / "manifest.json").write_text(text)
    with pytest.raises(ManifestInvalid, match=message):
        Manifest.load(base / "mine")
    (info,) = list_runs(base)
    assert info.status == "unreadable"


def test_status(base: Path, topology: Topology) -> None:
    run = start(base, topology, "mine")
    manifest = run.manifest()
    assert manifest.status() == "crashed"
    manifest.processes["md"].pid, manifest.processes["md"].start_time = me().pid, me().start_time
    assert manifest.status() == "masterless"
    manifest.master = me()
    assert manifest.status() == "running"
    assert manifest.alive_processes() == ["master", "md"]
    manifest.boot_id = "another"  # of another host, or before a reboot: the pids mean nothing
    assert manifest.status() == "crashed"
    assert manifest.alive_processes() == []
    manifest.state = "finished"
    assert manifest.status() == "finished"


def test_the_live_directory_of_another_run_is_not_trusted(base: Path, topology: Topology) -> None:
    manifest = start(base, topology, "mine").manifest()
    assert trusted_live_dir(manifest) == Path(manifest.live_dir)
    manifest.run_id += 1
    assert trusted_live_dir(manifest) is None
    manifest.run_id -= 1
    manifest.boot_id = "another"
    assert trusted_live_dir(manifest) is None


def test_a_process_is_told_by_its_start_time() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start_time = process_start_time(child.pid)
    assert start_time is not None
    assert process_alive(child.pid, start_time)
    assert not process_alive(child.pid, start_time + 1)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process_start_time(child.pid) is None  # a corpse that nobody has waited for yet
    child.communicate()
    assert not process_alive(child.pid, start_time)
    assert not process_alive(0, 0)


def test_clock_anchor() -> None:
    anchor = clock_anchor()
    assert 0 <= anchor.bracket_ns < 1_000_000
    assert anchor.to_monotonic(anchor.to_realtime(12345)) == 12345
    assert boot_id() != "unknown"


def test_prune_removes_what_dead_runs_left(base: Path, topology: Topology, tmp_path: Path) -> None:
    live = tmp_path / "live"
    dead, alive = start(base, topology, "dead"), start(base, topology, "alive", master=me())
    socket = tmp_path / "control.sock"
    socket.touch()
    recorded: list[str] = []
    assert str(live) in live_bases(base)

    would = prune_live([live], dry_run=True)
    assert [item.path.name for item in would] == ["tapewire-dead"]
    assert (live / "tapewire-dead").exists()

    pruned = prune_live([live, str(live)], recover=lambda run, _: recorded.append(run.name))
    assert [(item.path.name, item.problem) for item in pruned] == [("tapewire-dead", "")]
    assert recorded == ["dead"]
    assert [entry.name for entry in live.iterdir()] == ["tapewire-alive"]
    assert dead.manifest().state == "failed"
    assert alive.manifest().state == "running"


def test_prune_keeps_what_could_not_be_recorded(base: Path, topology: Topology, tmp_path: Path) -> None:
    start(base, topology, "dead")

    def fail(run: RunDir, manifest: Manifest) -> None:
        raise TapewireError("the disk is full")

    (item,) = prune_live([tmp_path / "live"], recover=fail)
    assert "the disk is full" in item.problem
    assert item.path.exists()


def test_prune_leaves_alone_what_is_in_use(base: Path, topology: Topology, tmp_path: Path) -> None:
    live = tmp_path / "live"
    manifest = start(base, topology, "dead").manifest()
    (live / "tapewire-young").mkdir()  # no owner yet: a master may be making it
    (live / "other").mkdir()
    (live / "tapewire-link").symlink_to(live / "other")
    with (
        open(Path(manifest.live_dir) / "owner.json", "rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ),
    ):
        assert prune_live([live]) == []
    os.utime(live / "tapewire-young", (0, 0))
    assert {item.path.name for item in prune_live([live])} == {"tapewire-dead", "tapewire-young"}
    assert sorted(entry.name for entry in live.iterdir()) == ["other", "tapewire-link"]


def test_prune_keeps_the_newest_runs(base: Path, topology: Topology) -> None:
    for name in ("a", "b", "c"):
        end(start(base, topology, name))
    running = start(base, topology, "d", master=me())
    assert [item.path.name for item in prune_runs(base, 1, dry_run=True)] == ["a", "b"]
    assert [item.path.name for item in prune_runs(base, 1)] == ["a", "b"]
    assert [info.run.name for info in list_runs(base)] == ["c", "d"]
    assert [item.path.name for item in prune_runs(base, 0)] == ["c"]
    assert running.path.exists()
