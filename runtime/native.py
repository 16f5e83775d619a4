"""From a process's configuration to the native parts of its loop."""

from __future__ import annotations

from .. import _native
from .child import ChildContext

__all__ = ["live_reader", "lockstep", "loop_context", "native_instruments"]

_JOIN_TIMEOUT_S = 10.0


def loop_context(context: ChildContext) -> _native.LoopContext:
    """Control file, counters, slot and wait policy of this process."""
    wait = context.process.wait
    return _native.LoopContext(
        context.control,
        context.counters,
        context.process.slot,
        # A timed source sleeps and spins by its own clock; what it reads, it reads without waiting.
        "yield" if wait.policy == "sleep-spin" else wait.policy,
        wait.window_us * 1_000 or 5_000_000,
        wait.batch_ms * 1_000_000 or 50_000_000,
        [
            (process.stream_id, process.slot)
            for process in context.processes.values()
            if process.name != context.name
        ],
    )


def live_reader(context: ChildContext, *roles: str) -> _native.LiveReader:
    """The live data streams of all processes of these roles, this process's own left out."""
    names = [stream.name for stream in context.streams_of(*roles) if stream.process != context.name]
    return _native.LiveReader(
        str(context.journal_dir), names, list(context.process.helper_cpus), _JOIN_TIMEOUT_S
    )


def native_instruments(context: ChildContext) -> list[_native.NativeInstrument]:
    """The instruments of the run as native code takes them."""
    return [
        _native.NativeInstrument(i.id, i.tick, i.lot, i.maker_fee, i.taker_fee, i.quantity_exponent)
        for i in context.topology.instruments
    ]


def lockstep(context: ChildContext, loop: _native.LoopContext) -> _native.Lockstep:
    """Waits until every strategy and every venue has consumed all that was written for it."""
    reads = {"strategy": ("market_data", "trade_gateway"), "trade_gateway": ("market_data", "strategy")}
    consumers = [
        (
            process.slot,
            [
                (stream.id, context.processes[stream.process].slot)
                for stream in context.streams_of(*reads[process.role])
            ],
        )
        for process in context.processes.values()
        if process.role in reads
    ]
    return _native.Lockstep(loop, consumers)
