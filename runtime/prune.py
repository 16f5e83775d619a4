"""Removing what dead runs left in shared memory, and old run directories on request."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from .environment import boot_id, process_alive
from .errors import TapewireError
from .manifest import Manifest
from .rundir import LIVE_PREFIX, RunDir, list_runs, read_owner

DEFAULT_LIVE_BASE = "/dev/shm"

# A live directory without an owner note may be one that is being made just now.
_YOUNG_S = 60.0


@dataclass(frozen=True)
class Pruned:
    """Something removed (or, in a dry run, to be removed): what, why, and how many bytes it took.

    `problem` says why it could not be removed after all.
    """

    path: Path
    reason: str
    size_bytes: int
    problem: str = ""


def prune_live(
    live_bases: Iterable[str | Path],
    *,
    recover: Callable[[RunDir, Manifest], None] | None = None,
    dry_run: bool = False,
) -> list[Pruned]:
    """Remove the live directories of dead runs below `live_bases`.

    Dead means: no process of its manifest is alive, nor the one that made it, and nobody has a file of
    it mapped. Before a directory goes, `recover` is called with its run to record what only shared
    memory still holds; if it raises, the directory stays. The manifest of a run that crashed then says
    "failed". Only directories of this user are touched.
    """
    result = []
    for base in sorted({str(Path(base)) for base in live_bases}):
        for path in sorted(Path(base).glob(f"{LIVE_PREFIX}*")):
            if path.is_symlink() or not path.is_dir() or path.stat().st_uid != os.geteuid():
                continue
            if not is_dead(path):
                continue
            size = tree_bytes(path)
            problem = "" if dry_run else _remove_live(path, recover)
            result.append(Pruned(path, "its run is dead", size, problem))
    return result


def prune_runs(base: Path, keep: int, *, dry_run: bool = False) -> list[Pruned]:
    """Remove all but the `keep` newest ended runs below `base`; running ones neither go nor count."""
    ended = [info for info in list_runs(base) if info.manifest is not None and info.manifest.ended]
    result = []
    for info in ended[: max(0, len(ended) - keep)]:
        size = tree_bytes(info.run.path)
        problem = ""
        if not dry_run:
            problem = _remove_tree(info.run.path)
        result.append(Pruned(info.run.path, f"older than the last {keep}", size, problem))
    return result


def live_bases(base: Path) -> set[str]:
    """Every place where runs below `base` had their live directories, /dev/shm included."""
    places = {DEFAULT_LIVE_BASE}
    for info in list_runs(base):
        if info.manifest is not None and info.manifest.live_dir:
            places.add(str(Path(info.manifest.live_dir).parent))
    return places


def is_dead(live_dir: Path) -> bool:
    """Whether nobody can need the live directory any more."""
    owner = read_owner(live_dir)
    if not owner and time.time() - live_dir.stat().st_mtime < _YOUNG_S:
        return False
    if owner.get("boot_id") == boot_id():
        if process_alive(int(owner.get("pid", 0)), int(owner.get("start_time", 0))):
            return False
        manifest = _manifest_of(owner)
        if manifest is not None and manifest.alive_processes():
            return False
    return not mapped_by(live_dir)


def mapped_by(directory: Path) -> list[int]:
    """Pids of the processes that have a file below `directory` mapped, as far as this user may see."""
    needle = f"{directory}/".encode()
    pids = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            if needle in (entry / "maps").read_bytes():
                pids.append(int(entry.name))
        except OSError:
            continue  # it has gone, or is another user's
    return pids


def tree_bytes(path: Path) -> int:
    """Bytes that the files below `path` really occupy (pages are sparse)."""
    total = 0
    for directory, _, files in os.walk(path):
        for file in files:
            try:
                total += os.lstat(os.path.join(directory, file)).st_blocks * 512
            except OSError:
                continue
    return total


def _manifest_of(owner: dict[str, object]) -> Manifest | None:
    """The manifest of the run that made a live directory, if it is still that run's."""
    try:
        manifest = Manifest.load(str(owner.get("run_dir", "")))
    except TapewireError:
        return None
    return manifest if manifest.run_id == owner.get("run_id") else None


def _remove_live(path: Path, recover: Callable[[RunDir, Manifest], None] | None) -> str:
    owner = read_owner(path)
    manifest = _manifest_of(owner)
    if manifest is not None:
        run = RunDir(Path(str(owner["run_dir"])))
        if recover is not None:
            try:
                recover(run, manifest)
            except (TapewireError, OSError) as error:
                return f"kept, since its last frames could not be recorded: {error}"
        if manifest.state in ("starting", "running"):
            manifest.state = "failed"
            manifest.save(run.path)
    socket = str(owner.get("control_socket", ""))
    if socket.startswith("/"):
        Path(socket).unlink(missing_ok=True)
    return _remove_tree(path)


def _remove_tree(path: Path) -> str:
    try:
        shutil.rmtree(path)
    except OSError as error:
        return f"cannot remove it: {error}"
    return ""
