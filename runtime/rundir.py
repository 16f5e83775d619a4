"""Run directories: created exclusively, found by name, directory or "last", listed.

RUN_DIR   <runs base>/<name>            the record: manifest, journal, logs, results
LIVE_DIR  <run.live_dir>/tapewire-<name>  shared memory: hot pages, control file, counters
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ..journal.errors import JournalFull, RunNotFound
from .config import Topology
from .errors import ConfigError, RunExists, TapewireError
from .manifest import MANIFEST_NAME, Manifest, write_atomically

RUNS_ENV = "TAPEWIRE_RUNS"
LIVE_PREFIX = "tapewire-"
OWNER_NAME = "owner.json"
LAST = "last"

# The next page exists before the current one is full.
_LIVE_PAGES_PER_STREAM = 2

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAME_HINT = "letters, digits, '.', '_' and '-', a letter or digit first, at most 64"


@dataclass(frozen=True)
class RunDir:
    """A run directory; `path` is absolute. Nothing is read until asked for."""

    path: Path

    @property
    def name(self) -> str:
        """The directory's own name; a copied run's manifest may say another."""
        return self.path.name

    @property
    def journal_dir(self) -> Path:
        """Recorded pages, one directory per stream."""
        return self.path / "journal"

    @property
    def logs_dir(self) -> Path:
        """One log per process."""
        return self.path / "logs"

    @property
    def input_path(self) -> Path:
        """What became of every line of a recording."""
        return self.path / "input.json"

    @property
    def summary_path(self) -> Path:
        """The final counters of each process."""
        return self.path / "summary.json"

    def manifest(self) -> Manifest:
        """Read the manifest; raises `RunNotFound` or `ManifestInvalid`."""
        return Manifest.load(self.path)

    def discard(self) -> None:
        """Remove the directory of a run that never came up."""
        shutil.rmtree(self.path, ignore_errors=True)


@dataclass(frozen=True)
class RunInfo:
    """A row of `list_runs`: the manifest, or why it cannot be read."""

    run: RunDir
    manifest: Manifest | None
    problem: str = ""

    @property
    def status(self) -> str:
        """`Manifest.status`, or "unreadable"."""
        return "unreadable" if self.manifest is None else self.manifest.status()


def runs_base(option: str | Path | None = None) -> Path:
    """Where run directories are: `option` (--runs-dir), else $TAPEWIRE_RUNS, else ./runs; absolute."""
    return Path(option or os.environ.get(RUNS_ENV) or "runs").expanduser().absolute()


def check_name(name: str) -> str:
    """`name` if a run can have it, else `ConfigError`."""
    if not _NAME.fullmatch(name) or name == LAST:
        reason = f"{name!r} is a word of the command line" if name == LAST else f"not a run name: {name!r}"
        raise ConfigError(reason, where="--name", hint=_NAME_HINT)
    return name


def live_dir_of(live_base: str | Path, name: str) -> Path:
    """The LIVE_DIR of the run `name`."""
    return Path(live_base) / f"{LIVE_PREFIX}{name}"


def create_run(base: Path, name: str | None, topology: Topology, *, now: datetime | None = None) -> RunDir:
    """Make the directory of a new run, exclusively.

    Without a `name` it is the topology's with the time of day, and a number where that is taken. Raises
    `RunExists` where a directory or live directory of that name is there already, `JournalFull` where
    the pages would not fit, `ConfigError` for an unusable name or base.
    """
    live_base = topology.run.live_dir
    if name is not None:
        check_name(name)
    _check_text(base)
    check_space(base, topology)
    try:
        base.mkdir(parents=True, exist_ok=True)
        if name is not None:
            return _create(base, name, live_base)
        stamp = (now or datetime.now()).strftime("%Y%m%d-%H%M%S")
        stem = f"{re.sub(r'[^A-Za-z0-9._-]', '-', topology.name).lstrip('.-_')[:40] or 'run'}-{stamp}"
        for number in range(1, 1000):
            try:
                return _create(base, stem if number == 1 else f"{stem}-{number}", live_base)
            except RunExists:
                continue
        raise RunExists(stem, base, "choose another name with --name")
    except OSError as error:
        raise ConfigError(
            f"cannot create a run in {base}: {error.strerror}", where="--runs-dir", hint=f"or set ${RUNS_ENV}"
        ) from error


def create_live_dir(manifest: Manifest, run: RunDir) -> Path:
    """Make the LIVE_DIR that `manifest` names, exclusively and for this user only, and note whose it is.

    Raises `RunExists` where it is there already, `JournalFull` where not even that fits.
    """
    path = Path(manifest.live_dir)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        raise _live_exists(manifest.name, path) from None
    except OSError as error:
        raise ConfigError(f"cannot create {path}: {error.strerror}", key="run.live_dir") from error
    owner = {
        "run_id": manifest.run_id,
        "run_dir": str(run.path),
        "boot_id": manifest.boot_id,
        "control_socket": manifest.control_socket,
        "pid": manifest.master.pid,
        "start_time": manifest.master.start_time,
    }
    try:
        write_atomically(path / OWNER_NAME, json.dumps(owner).encode())
    except OSError as error:
        shutil.rmtree(path, ignore_errors=True)
        raise JournalFull(path, 4096) from error
    return path


def read_owner(live_dir: Path) -> dict[str, Any]:
    """Whose LIVE_DIR this is, as `create_live_dir` noted it; empty where it cannot be told."""
    try:
        owner = json.loads((live_dir / OWNER_NAME).read_bytes())
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def trusted_live_dir(manifest: Manifest) -> Path | None:
    """The LIVE_DIR of that very run, if it is on this host and of this boot; else None.

    A run that was copied from another host, or whose name was used again, has none here.
    """
    path = Path(manifest.live_dir)
    if not manifest.live_dir or not manifest.same_boot or not path.is_dir():
        return None
    return path if read_owner(path).get("run_id") == manifest.run_id else None


def find_run(run: str, base: Path) -> RunDir:
    """The run that `run` names: "last", a name below `base`, or a directory. Raises `RunNotFound`."""
    if run == LAST:
        infos = [info for info in list_runs(base) if info.manifest is not None]
        if not infos:
            raise RunNotFound(f"no run in {base} yet — start one with `tapewire run TOPOLOGY`")
        return infos[-1].run
    named = base / run
    if os.sep not in run and (named / MANIFEST_NAME).is_file():
        return RunDir(named)
    path = Path(run).expanduser().absolute()
    if (path / MANIFEST_NAME).is_file():
        return RunDir(path)
    for candidate in (named, path):
        if candidate.is_dir():
            raise RunNotFound(f"{candidate}: not a run directory, it has no {MANIFEST_NAME}")
    names = [info.run.name for info in list_runs(base)]
    near = difflib.get_close_matches(run, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "`tapewire runs` lists them"
    raise RunNotFound(f"no run {run!r} in {base}, and no such directory — {hint}")


def list_runs(base: Path) -> list[RunInfo]:
    """Every run below `base`, oldest first; directories without a manifest are none."""
    infos = []
    for entry in sorted(base.iterdir()) if base.is_dir() else []:
        if not (entry / MANIFEST_NAME).is_file():
            continue
        try:
            infos.append(RunInfo(RunDir(entry), Manifest.load(entry)))
        except TapewireError as error:
            infos.append(RunInfo(RunDir(entry), None, str(error)))
    return sorted(
        infos, key=lambda info: ("" if info.manifest is None else info.manifest.started_at, info.run.name)
    )


def check_space(base: Path, topology: Topology) -> None:
    """Raise `JournalFull` unless the live directory has room for the first pages of every stream and the
    run directory for one page."""
    page_bytes = topology.run.page_bytes
    needs = (
        (Path(topology.run.live_dir), len(topology.streams()) * _LIVE_PAGES_PER_STREAM * page_bytes),
        (base, page_bytes),
    )
    for path, needed in needs:
        place = path
        while not place.exists() and place != place.parent:
            place = place.parent
        stats = os.statvfs(place)
        free = stats.f_bavail * stats.f_frsize
        if free < needed:
            raise JournalFull(path, needed, free)


def _check_text(base: Path) -> None:
    # The manifest names it, and JSON holds no bytes that are no text.
    try:
        str(base).encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"cannot create a run in {os.fsencode(base)!r}: that path is not UTF-8 text",
            where="--runs-dir",
            hint="name another, and see that the locale is a UTF-8 one",
        ) from None


def _create(base: Path, name: str, live_base: str) -> RunDir:
    live = live_dir_of(live_base, name)
    if live.exists() and not (base / name).exists():
        raise _live_exists(name, live)
    try:
        (base / name).mkdir()
    except FileExistsError:
        raise _run_exists(name, base / name) from None
    return RunDir(base / name)


def _run_exists(name: str, path: Path) -> RunExists:
    try:
        ended = Manifest.load(path).ended
    except RunNotFound:
        return RunExists(name, path, "it may be starting just now; choose another name with --name")
    except TapewireError:
        ended = True
    if ended:
        return RunExists(name, path, "choose another name with --name, or remove that directory")
    return RunExists(
        name, path, f"it is running; stop it with `tapewire stop {name}`, or choose another --name"
    )


def _live_exists(name: str, path: Path) -> RunExists:
    return RunExists(
        name,
        path,
        f"a run of that name is live, or crashed and left this behind; `tapewire stop {name}` stops it, "
        "`tapewire runs prune` removes the remains of dead runs",
    )
