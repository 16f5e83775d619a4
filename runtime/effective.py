"""What a topology comes to on this host: the policy in force per process, `auto` resolved."""

from __future__ import annotations

import msgspec

from .config import ProcessConfig, SyntheticFeedConfig, Topology
from .errors import ConfigError
from .policies import SchedSpec, WaitSpec, parse_sched, parse_wait, resolve_wait

# master, which is no entry of `processes`, and one for the rest of the machine.
_OTHERS = 2

EVENT_PATH: tuple[str, ...] = ("market_data", "strategy", "trade_gateway")


class EffectiveProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One process as it shall run.

    `slot` is its place in the control and counters files, `stream_id` and `consumed_stream_id` (0: none)
    the streams it writes. `cpus` is what it is pinned to, empty for wherever the kernel likes; `shared`
    says that others run there too. `helper_cpus` is where its page-preparing thread may run. `keeper`
    asks for an idle-class spinner on its CPU, so that a parked process wakes on a CPU that is awake.
    """

    name: str
    role: str
    slot: int
    stream_id: int
    consumed_stream_id: int
    cpus: tuple[int, ...]
    shared: bool
    helper_cpus: tuple[int, ...]
    wait: WaitSpec
    sched: SchedSpec
    nice: int
    mlock: bool
    on_exit: str
    keeper: bool


def resolve(topology: Topology, allowed: frozenset[int]) -> dict[str, EffectiveProcess]:
    """Every process of the topology with its policies resolved for a host where `allowed` CPUs are usable.

    Raises `ConfigError` for a fifo class with a policy that does not block. CPUs are not checked here:
    `topology.check_host` does that.
    """
    data = {stream.process: stream.id for stream in topology.streams() if stream.kind == "data"}
    consumed = {stream.process: stream.id for stream in topology.streams() if stream.kind == "consumed"}
    pinned = {name: pinned_cpus(process) for name, process in topology.processes.items()}
    result: dict[str, EffectiveProcess] = {}
    for slot, (name, process) in enumerate(topology.processes.items()):
        cpus = pinned[name]
        others = [pinned[other] for other in pinned if other != name]
        shared = _is_shared(cpus, others, allowed)
        wait = resolve_process_wait(topology, process)
        sched = parse_sched(process.sched, where=topology.source, key=f"processes.{name}.sched")
        _check_fifo(topology, process, wait, sched)
        on_event_path = process.role in EVENT_PATH
        result[name] = EffectiveProcess(
            name=name,
            role=process.role,
            slot=slot,
            stream_id=data[name],
            consumed_stream_id=consumed.get(name, 0),
            cpus=cpus,
            shared=shared,
            helper_cpus=_helper_cpus(cpus, pinned, allowed),
            wait=wait,
            sched=sched,
            nice=process.nice,
            mlock=process.mlock,
            on_exit=process.on_exit,
            keeper=topology.run.latency == "tail" and on_event_path and wait.policy == "park" and bool(cpus),
        )
    return result


def resolve_process_wait(topology: Topology, process: ProcessConfig) -> WaitSpec:
    """The wait policy in force for one process; never "auto"."""
    spec = parse_wait(process.wait, where=topology.source, key=f"processes.{process.name}.wait")
    window = getattr(process, "spin_window_us", 0)
    return resolve_wait(spec, process.role, latency=topology.run.latency, spin_window_us=window)


def pinned_cpus(process: ProcessConfig) -> tuple[int, ...]:
    """The CPUs a process is pinned to, sorted; empty for "any"."""
    if isinstance(process.cpu, str):
        return ()
    cpus = process.cpu if isinstance(process.cpu, list) else [process.cpu]
    return tuple(sorted(set(cpus)))


def warnings(topology: Topology, processes: dict[str, EffectiveProcess]) -> list[str]:
    """What will run, but not well: one line each, for the person at the terminal."""
    feed = topology.feed
    timed = isinstance(feed, SyntheticFeedConfig) and feed.speed_factor is not None
    interval_us = feed.interval_us if timed and isinstance(feed, SyntheticFeedConfig) else 0
    lines = []
    for process in processes.values():
        key, wait = f"processes.{process.name}", process.wait
        if wait.policy == "spin" and process.shared and process.role in EVENT_PATH:
            lines.append(f'{key}.wait: "spin" on a CPU that others use too; "yield" lets them have it')
        if wait.policy == "yield" and process.sched.policy == "idle":
            lines.append(f'{key}.sched: an idle-class process that yields may starve; use "other"')
        if process.role == "ledger" and process.shared and wait.policy not in ("batch", "park"):
            lines.append(f'{key}.wait: a ledger awake on a shared CPU delays events; use "batch 50ms"')
        if wait.policy == "hybrid" and wait.window_us <= interval_us:
            lines.append(
                f"{key}.wait: the window of {wait} is not longer than the event interval of "
                f"{interval_us}us, so each event pays a wake-up"
            )
    return lines


def _is_shared(cpus: tuple[int, ...], others: list[tuple[int, ...]], allowed: frozenset[int]) -> bool:
    if not cpus or len(allowed) < len(others) + _OTHERS:
        return True
    return any(not other or set(other) & set(cpus) for other in others)


def _helper_cpus(
    own: tuple[int, ...], pinned: dict[str, tuple[int, ...]], allowed: frozenset[int]
) -> tuple[int, ...]:
    """Where page preparation disturbs least: unpinned CPUs, else any but one's own, else anywhere."""
    hot = {cpu for cpus in pinned.values() for cpu in cpus}
    for choice in (allowed - hot, allowed - set(own), allowed):
        if choice:
            return tuple(sorted(choice))
    return ()


def _check_fifo(topology: Topology, process: ProcessConfig, wait: WaitSpec, sched: SchedSpec) -> None:
    if sched.policy == "fifo" and not wait.blocks:
        raise ConfigError(
            f'"{sched}" with a loop that does not block (wait is {wait}): real-time throttling stops it '
            "for 50 ms each second",
            where=topology.source,
            key=f"processes.{process.name}.sched",
            hint='use sched = "other", or wait = "park"',
        )
