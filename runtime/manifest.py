"""`manifest.json` of a run directory: what was run, where, and how it stands.

The master writes it, whole and by rename, so that a reader sees one state or the next. Anybody reads
it; a pid in it is trusted only together with its start time, and only within the same boot.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from ..journal.errors import RunNotFound
from .config import StreamInfo, Topology
from .effective import EffectiveProcess
from .environment import ClockAnchor, boot_id, process_alive
from .errors import TapewireError
from .instrument import Instrument

MANIFEST_NAME = "manifest.json"
MANIFEST_FORMAT = 1

RunState: TypeAlias = Literal["starting", "running", "finished", "failed", "stopped"]
RunStatus: TypeAlias = Literal[
    "starting", "running", "finished", "failed", "stopped", "masterless", "crashed"
]


class ManifestInvalid(TapewireError):
    """A manifest that cannot be read as one."""

    exit_status = 2


class ProcessIdentity(msgspec.Struct, kw_only=True):
    """A process, told apart from any later one with its pid by its start time in clock ticks since boot."""

    pid: int = 0
    start_time: int = 0

    @property
    def alive(self) -> bool:
        """Whether it runs now. Meaningful only within the boot that the manifest names."""
        return process_alive(self.pid, self.start_time)


class ProcessRecord(ProcessIdentity, kw_only=True):
    """What a process was asked to be and how it ended; `log` is relative to the run directory."""

    role: str
    cpu: list[int] = msgspec.field(default_factory=list)
    wait: str = ""
    sched: str = ""
    exit_code: int | None = None
    log: str = ""


class Manifest(msgspec.Struct, kw_only=True):
    """The contents of a manifest. Unknown keys of a later tapewire are kept out, not refused."""

    format: int = MANIFEST_FORMAT
    name: str
    run_id: int
    state: RunState = "starting"
    topology: str = ""
    config: dict[str, Any] = msgspec.field(default_factory=dict)
    argv: list[str] = msgspec.field(default_factory=list)
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    environment: dict[str, Any] = msgspec.field(default_factory=dict)
    boot_id: str = ""
    clock: ClockAnchor = ClockAnchor(monotonic_ns=0, realtime_ns=0)
    epoch: int = 1
    live_dir: str = ""
    control_socket: str = ""
    started_at: str = ""
    finished_at: str = ""
    master: ProcessIdentity = msgspec.field(default_factory=ProcessIdentity)
    processes: dict[str, ProcessRecord] = msgspec.field(default_factory=dict)
    streams: list[StreamInfo] = msgspec.field(default_factory=list)
    instruments: list[dict[str, Any]] = msgspec.field(default_factory=list)

    def save(self, run_dir: str | Path) -> None:
        """Write it into `run_dir` atomically and durably."""
        write_atomically(
            Path(run_dir) / MANIFEST_NAME, msgspec.json.format(msgspec.json.encode(self), indent=2)
        )

    @classmethod
    def load(cls, run_dir: str | Path) -> Manifest:
        """Read it; raises `RunNotFound` where there is none, `ManifestInvalid` for a bad one."""
        path = Path(run_dir) / MANIFEST_NAME
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise RunNotFound(f"{run_dir}: not a run directory, it has no {MANIFEST_NAME}") from None
        except OSError as error:
            raise ManifestInvalid(f"{path}: cannot read it: {error.strerror}") from error
        try:
            format_number = msgspec.json.decode(data, type=_FormatOnly).format
            if format_number > MANIFEST_FORMAT:
                raise ManifestInvalid(
                    f"{path}: manifest format {format_number}, this tapewire reads {MANIFEST_FORMAT}; "
                    "use the tapewire that wrote it"
                )
            return msgspec.json.decode(data, type=cls)
        except msgspec.DecodeError as error:
            raise ManifestInvalid(f"{path}: not a manifest: {error}") from None

    def topology_config(self) -> Topology:
        """The effective configuration of the run."""
        try:
            return Topology.from_dict(self.config)
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            raise ManifestInvalid(f"run {self.name}: its configuration cannot be read: {error}") from error

    def instrument_list(self) -> list[Instrument]:
        """The instruments of the run, by id from 1."""
        return [Instrument.from_dict(fields) for fields in self.instruments]

    @property
    def same_boot(self) -> bool:
        """Whether it is of this boot: only then do its pids and live files mean anything."""
        return self.boot_id not in ("", "unknown") and self.boot_id == boot_id()

    def alive_processes(self) -> list[str]:
        """Names of the processes of the run that are alive now, "master" among them."""
        if not self.same_boot:
            return []
        names = ["master"] if self.master.alive else []
        return names + [name for name, process in self.processes.items() if process.alive]

    def status(self) -> RunStatus:
        """How the run stands now. Beyond the recorded state: "masterless", where its processes go on
        without a master, and "crashed", where nobody is left to end it."""
        if self.state not in ("starting", "running"):
            return self.state
        alive = self.alive_processes()
        if "master" in alive:
            return self.state
        return "masterless" if alive else "crashed"

    @property
    def ended(self) -> bool:
        """Whether nothing of the run is alive and nothing will change it any more."""
        return self.status() in ("finished", "failed", "stopped", "crashed")


class _FormatOnly(msgspec.Struct):
    format: int = MANIFEST_FORMAT


def new_manifest(
    topology: Topology,
    processes: Iterable[EffectiveProcess],
    *,
    name: str,
    live_dir: str | Path,
    argv: list[str],
    clock: ClockAnchor,
    versions: dict[str, str],
    environment: dict[str, Any],
) -> Manifest:
    """The manifest of a run about to start: run id and start time are set, no process has a pid yet."""
    return Manifest(
        name=name,
        run_id=(int.from_bytes(os.urandom(8)) >> 2) | 1,
        topology=topology.name,
        config=topology.to_dict(),
        argv=list(argv),
        versions=versions,
        environment=environment,
        boot_id=boot_id(),
        clock=clock,
        live_dir=str(live_dir),
        started_at=utc_now(),
        processes={
            process.name: ProcessRecord(
                role=process.role,
                cpu=list(process.cpus),
                wait=str(process.wait),
                sched=str(process.sched),
                log=f"logs/{process.name}.log",
            )
            for process in processes
        },
        streams=list(topology.streams()),
        instruments=[instrument.to_dict() for instrument in topology.instruments],
    )


def utc_now() -> str:
    """The time of day in UTC to the microsecond, in a form that sorts as text."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: written beside it, synced, renamed, and the directory synced."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
