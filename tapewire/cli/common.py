"""What several commands share: options, tables, JSON, times."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import click

from ..runtime.errors import ConfigError

Function = TypeVar("Function", bound=Callable[..., Any])

# Wide enough that a table written to a file or a pipe is never folded.
_PIPE_WIDTH = 1000


def runs_dir_option(function: Function) -> Function:
    """`--runs-dir DIR`, passed as `runs_dir` (None where it was not given)."""
    return click.option(
        "--runs-dir",
        metavar="DIR",
        default=None,
        help="Where run directories are; else $TAPEWIRE_RUNS, else ./runs.",
    )(function)


def json_option(function: Function) -> Function:
    """`--json`, passed as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(function)


def run_argument(function: Function) -> Function:
    """The RUN argument, passed as `run`."""
    return click.argument("run", metavar="RUN")(function)


def print_json(value: Any) -> None:
    """Indented JSON on stdout."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()
) -> None:
    """A plain table on stdout; the columns named in `right` are right-aligned."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ..whole_table import print_whole

    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    print_whole(Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH), table)


def warn_missing_streams(run_dir: Path) -> None:
    """Say on stderr which streams of the run are not there: what follows leaves them out."""
    from ..journal import Journal

    missing = Journal.open(run_dir).missing_streams
    if missing:
        click.echo(f"warning: {run_dir}: no pages of stream {', '.join(missing)}; left out below", err=True)


def utc_text(realtime_ns: int) -> str:
    """UTC ns since 1970 as `2024-08-08T23:54:13.123456789Z`."""
    seconds, ns = divmod(int(realtime_ns), 1_000_000_000)
    return f"{_second_text(seconds)}.{ns:09d}Z"


@lru_cache(maxsize=64)
def _second_text(seconds: int) -> str:
    # Frames of one second come together, and formatting a date costs more than all the rest of a row.
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def parse_utc(text: str, *, option: str) -> int:
    """UTC ns since 1970 of an ISO 8601 time; without a zone it is UTC. Raises `ConfigError`."""
    body, dot, fraction = text.partition(".")
    digits = fraction[: len(fraction) - len(fraction.lstrip("0123456789"))]
    try:
        moment = datetime.fromisoformat(body + fraction[len(digits) :])
    except ValueError:
        raise ConfigError(
            f"not a time: {text!r}", where=option, hint="2024-08-08T23:54:13.5Z, or ns"
        ) from None
    if dot and not digits:
        raise ConfigError(f"not a time: {text!r}", where=option)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    whole = int(moment.astimezone(UTC).replace(microsecond=0).timestamp())
    return whole * 1_000_000_000 + int(digits.ljust(9, "0")[:9] or 0)


def bytes_text(count: int) -> str:
    """`12.3 MiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
