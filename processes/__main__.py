"""`python -m tapewire.processes NAME RUN_DIR`: what master starts; NAME "master" is master itself."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from . import MASTER, ROLE_MODULES


def main(argv: list[str] | None = None) -> int:
    """Run one process of a run; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tapewire.processes", description=__doc__)
    parser.add_argument("name", help=f"a process of the topology, or {MASTER!r}")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--report-fd", type=int, default=-1, help="pipe to whoever launched master")
    parser.add_argument("--for-s", type=float, default=None, help="master stops the run after that time")
    arguments = parser.parse_args(argv)
    _import_structlog_without_rich()
    if arguments.name == MASTER:
        from .master import run_master

        return run_master(arguments.run_dir, arguments.report_fd, arguments.for_s)
    from ..runtime.child import run_child

    return run_child(arguments.name, arguments.run_dir, _role_module)


def _import_structlog_without_rich() -> None:
    """structlog loads rich, if there is one, for colours: 30 ms and 4 MB in every process, for a log file."""
    hidden = "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import_module("structlog")
    finally:
        if hidden:
            del sys.modules["rich"]


def _role_module(role: str) -> Any:
    return import_module(ROLE_MODULES[role])


if __name__ == "__main__":
    sys.exit(main())
