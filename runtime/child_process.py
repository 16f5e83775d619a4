"""What master knows about one of its processes, and what it says about its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from .cpu import Placement
from .errors import ProcessDied, TapewireError
from .live import ERROR_PREFIX
from .shutdown import Stoppable
from .watch import describe_exit, tail_lines

__all__ = [
    "BAD_INPUT",
    "Child",
    "ChildSpec",
    "Ending",
    "Outcome",
    "StartCancelled",
    "death_at_start",
    "death_problem",
]

#: Exit status of a process that found its input to be wrong.
BAD_INPUT = 2


class StartCancelled(TapewireError):
    """Somebody asked to stop before the run was up."""

    exit_status = 130


class Ending(Enum):
    """Why a run ends; the value is the manifest's state."""

    END_OF_INPUT = "finished"
    REQUESTED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True)
class ChildSpec:
    """A process to start: `slot` is its place in the control file and the counters."""

    name: str
    role: str
    slot: int
    argv: tuple[str, ...]
    log: Path
    on_exit: str = "stop-run"
    env: dict[str, str] | None = None


@dataclass(frozen=True)
class Outcome:
    """How a run ended. `problems` are lines for the operator, the first one is the cause; `failed` names
    the processes that broke down."""

    ending: Ending
    problems: list[str]
    exit_status: int
    failed: list[str] = field(default_factory=list)


@dataclass(eq=False)
class Child(Stoppable):
    """A process that master started, and what it has said so far."""

    spec: ChildSpec = field(kw_only=True)
    peer: bytes | None = None
    placement: Placement | None = None
    joined: bool = False
    judged: bool = False
    stalled: bool = False

    @property
    def is_source(self) -> bool:
        """Whether it feeds the run, so that its orderly end is the end of the input."""
        return self.role == "market_data"

    @property
    def reason(self) -> str:
        """The reason that it gave for its end, if it could: the error line that closes its log."""
        lines = [line for line in tail_lines(self.spec.log) if line.startswith(ERROR_PREFIX)]
        return lines[-1].removeprefix(ERROR_PREFIX) if lines else ""


def death_at_start(child: Child) -> TapewireError:
    """The error that a start ends with because `child` ended."""
    code, reason = child.watch.exit_code, child.reason
    if reason and code == BAD_INPUT:
        error = TapewireError(reason)  # pass on what the one who found it says
        error.exit_status = BAD_INPUT
        return error
    how = f"{describe_exit(code)} while starting" + (f": {reason}" if reason else "")
    # The log goes with the half-made run, so its last lines come along instead of its path.
    return ProcessDied(child.name, how, tail="\n".join(tail_lines(child.spec.log)))


def death_problem(child: Child) -> str:
    """The line about `child`, which ended when it should not have."""
    code, reason = child.watch.exit_code, child.reason
    if reason and code == BAD_INPUT:
        return f"process {child.name}: {reason}"
    unasked = " without being asked to" if code == 0 else ""
    return f"process {child.name} {describe_exit(code)}{unasked}" + (f": {reason}" if reason else "")
