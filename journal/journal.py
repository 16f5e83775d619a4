"""`Journal`: the record of one run, wherever its pages are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _native
from .errors import RunNotFound, StreamNotFound
from .format import header_dtype
from .reader import MergedReader

if TYPE_CHECKING:
    import numpy.typing as npt

_HEADER_CHUNK = 262_144


class Journal:
    """The streams of a run directory, read from its recorded pages and, while the run is alive on this host,
    from its live pages."""

    def __init__(
        self, run_dir: str | os.PathLike[str], live_dir: str | os.PathLike[str] | None = None
    ) -> None:
        self.run_dir = Path(run_dir)
        self.manifest: dict[str, Any] = {}
        manifest = self.run_dir / "manifest.json"
        if manifest.is_file():
            try:
                self.manifest = json.loads(manifest.read_bytes())
            except ValueError as error:
                raise RunNotFound(
                    f"{manifest}: not readable as JSON ({error}); restore it from a copy"
                ) from None
        elif not (self.run_dir / "journal").is_dir():
            raise RunNotFound(
                f"{self.run_dir}: no run directory (no manifest.json); `tapewire runs` lists the runs"
            )
        self.live_dir = self._live(live_dir)
        # Live pages first: they hold all that the recorded ones do, and more.
        places = [self.live_dir, self.run_dir] if self.live_dir else [self.run_dir]
        self.directories = tuple(str(p / "journal") for p in places)

    @classmethod
    def open(cls, run: str | os.PathLike[str]) -> Journal:
        """The journal of a run directory. Raises RunNotFound."""
        return cls(run)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _live(self, given: str | os.PathLike[str] | None) -> Path | None:
        if given is not None:
            return Path(given)
        named = self.manifest.get("live_dir")
        if not named or self.manifest.get("boot_id") != _boot_id():
            return None  # another host's, or gone with the last boot
        live = Path(named)
        if not (live / "journal").is_dir():
            return None
        # The name may have been used again, or the run copied here: the live pages must be this run's own.
        return live if _owner(live) == self.manifest.get("run_id") else None

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams that have pages; in stream id order where the manifest tells."""
        found = {
            name
            for directory in self.directories
            if os.path.isdir(directory)
            for name in os.listdir(directory)
            if not name.startswith(".") and _native.list_pages(os.path.join(directory, name))
        }
        known = [s["name"] for s in self.manifest.get("streams", ()) if s["name"] in found]
        return (*known, *sorted(found - set(known)))

    @property
    def missing_streams(self) -> tuple[str, ...]:
        """Streams of the manifest that have no page here: lost in a copy, or of a run that hardly began."""
        present = self.streams
        return tuple(s["name"] for s in self.manifest.get("streams", ()) if s["name"] not in present)

    @property
    def stream_names(self) -> dict[int, str]:
        """Stream names by id, from the manifest; falls back to the page headers."""
        named = {int(s["id"]): str(s["name"]) for s in self.manifest.get("streams", ())}
        return named or {self.page(s, self.pages(s)[0])["stream_id"]: s for s in self.streams}

    def pages(self, stream: str) -> list[int]:
        """Page numbers of a stream, ascending."""
        numbers: set[int] = set()
        for directory in self.directories:
            numbers.update(_native.list_pages(os.path.join(directory, stream)))
        return sorted(numbers)

    def page(self, stream: str, number: int) -> dict[str, Any]:
        """The scan of one page: frames, next_seq, valid_end, finding, clean, epoch, …"""
        for directory in self.directories:
            path = Path(directory) / stream / f"{number:08d}.page"
            if path.exists():
                return {**_native.scan_page(str(path)), "path": str(path)}
        raise StreamNotFound(stream, self.run_dir, self.streams)

    def reader(
        self,
        streams: Iterable[str] | None = None,
        types: Sequence[str | int] | None = None,
        *,
        from_seq: int | None = None,
        from_time: int | None = None,
        verify: bool = True,
    ) -> MergedReader:
        """A reader of the named streams (all by default), merged; of the named frame types (all by default).

        `from_seq`: first seq in each stream; `from_time`: CLOCK_MONOTONIC ns. `verify` checks each
        frame's CRC.
        Raises StreamNotFound, JournalCorrupt, JournalVersionUnsupported, NotAJournal.
        """
        known = self.streams
        wanted = known if streams is None else tuple(dict.fromkeys(streams))
        for name in wanted:
            if name not in known:
                raise StreamNotFound(name, self.run_dir, known)
        reader = MergedReader(self.directories, wanted, types, verify=verify)
        if from_seq is not None:
            reader.seek(seq=from_seq)
        elif from_time is not None:
            reader.seek(time_ns=from_time)
        return reader

    def headers(self, streams: Iterable[str] | None = None, *, verify: bool = True) -> npt.NDArray[Any]:
        """Every frame header, stream after stream, as one array of `format.header_dtype()`."""
        import numpy as np

        parts: list[npt.NDArray[Any]] = []
        for name in self.streams if streams is None else streams:
            with self.reader([name], verify=verify) as reader:
                parts.extend(batch.headers for batch in reader.batches(_HEADER_CHUNK))
        return np.concatenate(parts) if parts else np.empty(0, header_dtype())


def _owner(live_dir: Path) -> int | None:
    try:
        owner = json.loads((live_dir / "owner.json").read_bytes())
    except (OSError, ValueError):
        return None
    return owner.get("run_id") if isinstance(owner, dict) else None


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
