"""What a journal does on a full file system: run by test_no_space.py, with a 1 MiB tmpfs mounted at argv[2].

Each scenario prints what it saw as JSON; a SIGBUS would end the process instead.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tapewire import _native
from tapewire.journal import Journal, Recorder, Writer
from tapewire.journal.errors import JournalFull

PAGE_BYTES = 65_536


def fill(full: Path, leave: int = 0) -> Path:
    """Take all space but `leave` bytes."""
    ballast = full / "ballast"
    free = os.statvfs(full)
    size = max(free.f_bavail * free.f_frsize - leave, 0)
    with ballast.open("wb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, max(size, 1))
        except OSError:
            os.posix_fallocate(file.fileno(), 0, max(size - 2 * 4096, 1))
    return ballast


def facts(error: JournalFull) -> dict[str, Any]:
    return {"message": str(error), "path": error.path, "bytes_needed": error.bytes_needed}


def read(run: Path) -> list[int]:
    with Journal(run).reader(from_seq=1) as reader:  # from the first there is
        return [frame.seq for frame in reader]


def clean(run: Path) -> bool:
    """Whether every page ends as a page must."""
    journal = Journal(run)
    return all(journal.page("md", n)["clean"] for n in journal.pages("md"))


def writer_fills_it(full: Path, helper: bool) -> dict[str, Any]:
    """Append until it is full, again and again, with room made in between."""
    run = full / "run"
    writer = _native.StreamWriter(
        str(run / "journal"), "md", 1, 0, 1, PAGE_BYTES, None, [] if helper else None
    )
    rounds: list[dict[str, Any]] = []
    frame = bytes(range(250)) * 4
    for _ in range(3):
        ballast = fill(full, leave=3 * PAGE_BYTES + 4096)
        refused: list[dict[str, Any]] = []
        while len(refused) < 3:
            before = writer.last_seq
            try:
                writer.append(1000, frame)
            except JournalFull as error:
                last = max(_native.list_pages(str(run / "journal" / "md")))
                scan = _native.scan_page(str(run / "journal" / "md" / f"{last:08d}.page"))
                page = (run / "journal" / "md" / f"{last:08d}.page").read_bytes()
                refused.append(
                    {
                        **facts(error),
                        "same_seq": writer.last_seq == before,
                        "untouched": not any(page[scan["valid_end"] :]),
                        "finding": scan["finding"],
                    }
                )
        rounds.append({"last_seq": writer.last_seq, "refused": refused, "read": read(run)[-1]})
        ballast.unlink()
        for _ in range(100):
            writer.append(1000, frame)
        for page_number in _native.list_pages(str(run / "journal" / "md"))[:-1]:
            (run / "journal" / "md" / f"{page_number:08d}.page").unlink()  # what retention does
    last_seq = writer.last_seq
    writer.close()
    with Journal(run).reader(from_seq=last_seq) as reader:
        end = [frame.seq for frame in reader]
    return {"rounds": rounds, "last_seq": last_seq, "end": end, "clean": clean(run)}


def opening(full: Path) -> dict[str, Any]:
    """A writer, a control file and a counters file that cannot be made; then with room."""
    ballast = fill(full)
    seen: dict[str, Any] = {}
    makers: dict[str, Callable[[], Any]] = {
        "writer": lambda: Writer(full / "run", "md", 1),
        "control": lambda: _native.Control.create(str(full / "control")),
        "counters": lambda: _native.Counters.create(str(full / "counters"), ["md"] * 20),
    }
    for name, make in makers.items():
        try:
            make()
        except JournalFull as error:
            seen[name] = facts(error)
    seen["left"] = sorted(str(p.relative_to(full)) for p in full.rglob("*") if p.is_file())
    ballast.unlink()
    Writer(full / "run", "md", 1, page_bytes=PAGE_BYTES).close()
    _native.Control.create(str(full / "control"))
    return seen


def recovery(full: Path) -> dict[str, Any]:
    """A page that was cut off on a full file system: the writer that takes over needs its space back."""
    run = full / "run"
    with Writer(run, "md", 1, page_bytes=PAGE_BYTES) as writer:
        for _ in range(20):
            writer.append("user", b"\x5a" * 1000)
    page = run / "journal" / "md" / "00000001.page"
    os.truncate(page, 128 + 10 * 1056 + 500)
    before = page.read_bytes()
    ballast = fill(full)
    seen: dict[str, Any] = {}
    try:
        Writer(run, "md", 1, page_bytes=PAGE_BYTES)
    except JournalFull as error:
        seen["error"] = facts(error)
    seen["kept"] = page.read_bytes()[: len(before)] == before
    ballast.unlink()
    with Writer(run, "md", 1, page_bytes=PAGE_BYTES) as writer:
        seen["last_seq"] = writer.last_seq
        writer.append("user", b"")
    seen["read"] = read(run)
    seen["clean"] = clean(run)
    return seen


def recorder(full: Path, live: Path) -> dict[str, Any]:
    """The run directory is full: at the first page, within one, at the mark. Then there is room again."""
    run = full / "run"
    seen: dict[str, Any] = {"errors": 0, "rounds": 0, "facts": None}
    with Writer(live, "md", 1, page_bytes=PAGE_BYTES) as writer:
        recorder = Recorder(run, live, ["md"])
        for leave in (0, 4096, 8192, 12_288, 40_960, 0, 4096, 69_632):
            ballast = fill(full, leave=leave)
            for _ in range(12):
                for _ in range(10):
                    writer.append("user", bytes(700))
                try:
                    recorder.step()
                except JournalFull as error:
                    seen["errors"] += 1
                    seen["facts"] = facts(error)
            ballast.unlink()
            recorder.finish()
            seen["rounds"] += 1
            seen["recorded"] = recorder.recorded["md"] == writer.last_seq
            if seen["rounds"] % 3 == 0:  # another one takes over
                recorder = Recorder(run, live, ["md"])
        live_pages = {p.name: p.read_bytes() for p in (live / "journal" / "md").glob("*.page")}
        copies = {p.name: p.read_bytes() for p in (run / "journal" / "md").glob("*.page")}
    seen["same"] = live_pages == copies
    seen["read"] = len(read(run)) == writer.last_seq
    return seen


def main(scenario: str, full: Path, aside: Path) -> None:
    scenarios: dict[str, Callable[[], dict[str, Any]]] = {
        "inline": lambda: writer_fills_it(full, helper=False),
        "helper": lambda: writer_fills_it(full, helper=True),
        "opening": lambda: opening(full),
        "recovery": lambda: recovery(full),
        "recorder": lambda: recorder(full, aside),
    }
    print(json.dumps(scenarios[scenario]()))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
