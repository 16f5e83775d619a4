"""Bad input found before there is a run: the recording read to its end, the strategies imported.

The processes check again when they start; this is so that a mistake costs one line and leaves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from .config import BinanceFeedConfig, StrategyConfig, Topology
from .errors import ConfigError
from .market.binance import check_recording
from .overrides import blamed
from .strategy_loader import load_strategy

__all__ = ["check_inputs"]

# A file of this size takes seconds to read: worth a word to whoever waits.
SLOW_BYTES = 50 * 1024 * 1024


def check_inputs(
    topology: Topology,
    say: Callable[[str], None] = lambda _line: None,
    *,
    overrides: Sequence[str] = (),
) -> None:
    """Refuse what the processes would refuse.

    Raises `InputError`, which names file and line, and `ConfigError`, which names the file (or "--set",
    where one of `overrides` is at fault) and the key path. `say` gets a line where it takes a while.
    """
    for process in topology.processes.values():
        if isinstance(process, StrategyConfig) and not process.is_native:
            key = f"processes.{process.name}"
            try:
                load_strategy(process.strategy, process.params, where=topology.source, key=key)
            except ConfigError as error:
                raise blamed(error, overrides, where=topology.source) from error.__cause__
        elif isinstance(process, BinanceFeedConfig):
            if Path(process.input).stat().st_size > SLOW_BYTES:
                say(f"checking {process.input}")
            check_recording(process.input, topology.instruments)
