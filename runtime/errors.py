"""The errors of running a topology, and of the prices and quantities a strategy hands in."""

from __future__ import annotations

from pathlib import Path

from ..journal.errors import TapewireError

__all__ = [
    "ConfigError",
    "InputError",
    "OffLot",
    "OffTick",
    "OrderError",
    "OutOfRange",
    "ProcessDied",
    "RunExists",
    "StartTimeout",
    "TapewireError",
]


class ConfigError(TapewireError):
    """A topology, an override or an option is wrong; nothing was started.

    `where` is the topology's file (or "--set"), `key` the dotted key path, `hint` what to do.
    """

    exit_status = 2

    def __init__(self, problem: str, *, where: str | Path = "", key: str = "", hint: str = "") -> None:
        self.where = str(where)
        self.key = key
        self.problem = problem
        self.hint = hint
        place = ": ".join(part for part in (self.where, key) if part)
        message = f"{place}: {problem}" if place else problem
        super().__init__(f"{message} — {hint}" if hint else message)


class InputError(TapewireError):
    """A recording or another input file cannot be read as what it should be."""

    exit_status = 2

    def __init__(self, problem: str, *, path: str | Path, line: int | None = None, hint: str = "") -> None:
        self.path = str(path)
        self.line = line
        place = str(path) if line is None else f"{path}: line {line}"
        super().__init__(f"{place}: {problem}" + (f" — {hint}" if hint else ""))


class RunExists(TapewireError):
    """A run of that name exists, on disk or live."""

    exit_status = 2

    def __init__(self, name: str, where: str | Path, hint: str) -> None:
        self.name = name
        self.where = str(where)
        super().__init__(f"{where}: run {name!r} exists already — {hint}")


class ProcessDied(TapewireError):
    """A process of the run ended when it should not have."""

    def __init__(self, process: str, how: str, log: str | Path = "", tail: str = "") -> None:
        self.process = process
        self.how = how
        self.log = str(log)
        self.tail = tail
        super().__init__(f"process {process} {how}" + (f" — see {log}" if log else ""))


class StartTimeout(TapewireError):
    """The topology did not come up within `run.start_timeout_s`."""

    def __init__(self, missing: list[str], timeout_s: float, log_dir: str | Path = "") -> None:
        self.missing = list(missing)
        self.timeout_s = timeout_s
        logs = f"see {log_dir}, or " if log_dir else ""
        super().__init__(
            f"not ready after {timeout_s:g} s: {', '.join(missing)} — {logs}"
            "raise it with --set run.start_timeout_s=N"
        )


class OrderError(TapewireError):
    """A price, quantity or order that cannot be sent as it stands."""


class OffTick(OrderError):
    """A price that is not a whole number of ticks."""


class OffLot(OffTick):
    """A quantity that is not a whole number of lots (an `OffTick`, so that one except clause does)."""


class OutOfRange(OrderError):
    """A value that does not fit into the 64 bits a frame has for it."""
