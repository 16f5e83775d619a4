"""Small journals, made by the tests that read them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DATA = Path(__file__).parent.parent / "data" / "journal_v1"

#: The smallest page there is: rolls come soon and files stay small.
PAGE_BYTES = 65_536


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty directory, for tests that hypothesis runs many times."""
    with tempfile.TemporaryDirectory(prefix="tapewire-test-") as directory:
        yield Path(directory)


def golden_page(name: str) -> Path:
    """The one page of a golden journal."""
    return DATA / name / "journal" / "md" / "00000001.page"


def put_page(run_dir: Path, data: bytes, *, stream: str = "md", number: int = 1) -> Path:
    """Write `data` as a page of a run directory; returns its path."""
    path = run_dir / "journal" / stream / f"{number:08d}.page"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
