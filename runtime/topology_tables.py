"""The tables of a topology document, turned into checked structs.

Only what the document itself says is judged here; `topology.py` goes on with files and this host.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import msgspec

from .config import (
    FEEDS,
    NATIVE_STRATEGIES,
    PROCESS_NAME_MAX,
    ROLES,
    InstrumentConfig,
    MarketDataConfig,
    MasterConfig,
    ProcessConfig,
    RunConfig,
    StrategyConfig,
    SyntheticFeedConfig,
    Topology,
)
from .errors import ConfigError, OrderError
from .instrument import FEE_ONE, Instrument
from .policies import choice_hint, parse_sched, parse_wait
from .units import to_units
from .validate import check_keys, convert_table, plain, require_table

_PROCESS_NAME = re.compile(rf"[a-z][a-z0-9_]{{0,{PROCESS_NAME_MAX - 1}}}")
_SYMBOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,31}")
_SPEED = re.compile(r"max|\d+(\.\d+)?x")
# Beyond these an interval is no 64-bit number of ns any more, or none that anybody can tell from "max".
SPEED_MIN, SPEED_MAX = 1e-3, 1e6


def read_tables(raw: dict[str, Any], *, name: str, where: str) -> Topology:
    """A `Topology` from a parsed document; paths in it are still as written. Raises `ConfigError`."""
    check_keys(raw, ("run", "instruments", "processes"), where=where, path="", what="table")
    run_table = require_table(raw.get("run", {}), where=where, path="run")
    run = RunConfig(**convert_table(RunConfig, run_table, where=where, path="run"))
    instruments = _instruments(raw.get("instruments"), where)
    tables = require_table(raw.get("processes", {}), where=where, path="processes")
    processes = {key: _process(key, table, where) for key, table in tables.items()}
    master = processes.pop("master", None) or MasterConfig(name="master", role="master")
    assert isinstance(master, MasterConfig)
    _check_roles(processes, where)
    processes = {key: _complete(process, instruments, where) for key, process in processes.items()}
    return Topology(
        name=name, source=where, run=run, instruments=instruments, processes=processes, master=master
    )


def _instruments(value: Any, where: str) -> tuple[Instrument, ...]:
    if value is not None and not isinstance(value, list):
        raise ConfigError("expected [[instruments]] tables", where=where, key="instruments")
    if not value:
        raise ConfigError(
            "no instruments",
            where=where,
            key="instruments",
            hint="add an [[instruments]] table with a symbol",
        )
    result: list[Instrument] = []
    for number, item in enumerate(value, start=1):
        path = f"instruments.{number}"
        table = require_table(item, where=where, path=path)
        config = InstrumentConfig(**convert_table(InstrumentConfig, table, where=where, path=path))
        if not _SYMBOL.fullmatch(config.symbol):
            raise ConfigError(f"not a symbol: {config.symbol!r}", where=where, key=f"{path}.symbol")
        if any(other.symbol == config.symbol for other in result):
            raise ConfigError(f"{config.symbol} is listed twice", where=where, key=f"{path}.symbol")
        try:
            instrument = Instrument.from_dict(msgspec.structs.asdict(config), id=number)
        except OrderError as error:
            key, _, problem = str(error).partition(": ")
            raise ConfigError(problem, where=where, key=f"{path}.{key}") from None
        for key in ("tick", "lot"):
            if getattr(instrument, key) <= 0:
                raise ConfigError("must be greater than 0", where=where, key=f"{path}.{key}")
        for key in ("maker_fee", "taker_fee"):
            if abs(getattr(instrument, key)) > FEE_ONE:
                problem = f"a fee is a fraction of the notional from -1 to 1, got {getattr(config, key)}"
                raise ConfigError(problem, where=where, key=f"{path}.{key}", hint='0.1 % is "0.001"')
        result.append(instrument)
    return tuple(result)


def _process(name: str, value: Any, where: str) -> ProcessConfig:
    path = f"processes.{name}"
    table = require_table(value, where=where, path=path)
    if not _PROCESS_NAME.fullmatch(name):
        raise ConfigError(
            "not a process name",
            where=where,
            key=path,
            hint=f"lower-case letters, digits and _, a letter first, at most {PROCESS_NAME_MAX}",
        )
    kind = _kind(name, table, where, path)
    process = kind(
        name=name,
        **convert_table(
            kind, table, where=where, path=path, skip=("name",), what=f"key for {_kind_text(table)}"
        ),
    )
    _check_common(process, where, path)
    return process


def _kind(name: str, table: dict[str, Any], where: str, path: str) -> type[ProcessConfig]:
    """Which struct a process table is, by its role and, for market data, its feed."""
    roles = (*ROLES, "master")
    role = table.get("role")
    if role is None:
        raise ConfigError("missing", where=where, key=f"{path}.role", hint=f"one of {', '.join(roles)}")
    if role not in roles:
        raise ConfigError(
            f"unknown role {role!r}", where=where, key=f"{path}.role", hint=choice_hint(str(role), roles)
        )
    if (role == "master") != (name == "master"):
        raise ConfigError(
            "the master process is [processes.master], and only that one", where=where, key=f"{path}.role"
        )
    if role == "master":
        return MasterConfig
    if role != "market_data":
        return ROLES[role][0]
    feed = table.get("feed")
    if feed not in FEEDS:
        problem = "missing" if feed is None else f"unknown feed {feed!r}"
        raise ConfigError(problem, where=where, key=f"{path}.feed", hint=choice_hint(str(feed), tuple(FEEDS)))
    return FEEDS[feed]


def _kind_text(table: dict[str, Any]) -> str:
    return f"the {table['feed']} feed" if table["role"] == "market_data" else f"role {table['role']}"


def _check_common(process: ProcessConfig, where: str, path: str) -> None:
    if isinstance(process.cpu, str) and process.cpu != "any":
        raise ConfigError(
            f'expected a CPU number, a list of them or "any", got str "{process.cpu}"',
            where=where,
            key=f"{path}.cpu",
        )
    cpus = process.cpu if isinstance(process.cpu, list) else [process.cpu]
    if not cpus:
        raise ConfigError("an empty list names no CPU", where=where, key=f"{path}.cpu", hint='use "any"')
    if any(isinstance(cpu, int) and cpu < 0 for cpu in cpus):
        raise ConfigError("a CPU number is 0 or more", where=where, key=f"{path}.cpu", hint='or "any"')
    wait = parse_wait(process.wait, where=where, key=f"{path}.wait")
    parse_sched(process.sched, where=where, key=f"{path}.sched")
    timed = process.role == "market_data"
    if (timed and wait.policy == "batch") or (not timed and wait.policy == "sleep-spin"):
        suits = "a process that waits for others" if timed else "a timed source"
        raise ConfigError(
            f'"{wait.policy}" is for {suits}, not for role {process.role}',
            where=where,
            key=f"{path}.wait",
            hint='use "auto"',
        )


def _check_roles(processes: dict[str, ProcessConfig], where: str) -> None:
    count = Counter(process.role for process in processes.values())
    for role in ROLES:
        if count[role] == 0:
            raise ConfigError(
                f"no process has role {role}",
                where=where,
                key="processes",
                hint=f'add a [processes.NAME] table with role = "{role}"',
            )
        if count[role] > 1:
            names = [name for name, process in processes.items() if process.role == role]
            raise ConfigError(
                f"{' and '.join(names)} both have role {role}, a run has one",
                where=where,
                key=f"processes.{names[1]}.role",
                hint="remove one of them",
            )


def _complete(process: ProcessConfig, instruments: tuple[Instrument, ...], where: str) -> ProcessConfig:
    """`process` with what depends on the rest of the document checked and filled in."""
    path = f"processes.{process.name}"
    if isinstance(process, MarketDataConfig):
        return _complete_feed(process, instruments, where, path)
    if isinstance(process, StrategyConfig):
        return _complete_strategy(process, instruments, where, path)
    return process


def _complete_feed(
    feed: MarketDataConfig, instruments: tuple[Instrument, ...], where: str, path: str
) -> MarketDataConfig:
    factor = feed.speed_factor if _SPEED.fullmatch(feed.speed) else 0.0
    if factor is not None and not SPEED_MIN <= factor <= SPEED_MAX:
        raise ConfigError(
            f"not a speed: {feed.speed!r}",
            where=where,
            key=f"{path}.speed",
            hint=f'"1x", "10x" or "max"; from {SPEED_MIN:g}x to {SPEED_MAX:.0f}x',
        )
    if isinstance(feed, SyntheticFeedConfig):
        for instrument in instruments:
            price = _amount(feed.start_price, f"{path}.start_price", where, instrument.parse_price)
            # Ten levels below the lower touch must stay above zero, and so must some way down from there.
            if price < (feed.spread_ticks + 100) * instrument.tick:
                raise ConfigError(
                    f"{feed.start_price} is less than 100 ticks of {instrument.symbol} above zero",
                    where=where,
                    key=f"{path}.start_price",
                )
    if feed.pace != "auto":
        return feed
    recorded_at_max = feed.feed != "synthetic" and feed.speed_factor is None
    return msgspec.structs.replace(feed, pace="lockstep" if recorded_at_max else "free")


def _complete_strategy(
    process: StrategyConfig, instruments: tuple[Instrument, ...], where: str, path: str
) -> StrategyConfig:
    for instrument in instruments:
        key = f"{path}.max_position"
        exponent = instrument.quantity_exponent

        def units(text: str, exponent: int = exponent) -> int:
            return to_units(text, exponent, what="max_position")

        if _amount(process.max_position, key, where, units) <= 0:
            raise ConfigError("must be greater than 0", where=where, key=key)
    if not process.is_native:
        return msgspec.structs.replace(process, params=plain(process.params))
    return _complete_native(process, instruments[0], where, path)


def _complete_native(
    process: StrategyConfig, instrument: Instrument, where: str, path: str
) -> StrategyConfig:
    name = process.strategy.removeprefix("native:")
    if name not in NATIVE_STRATEGIES:
        raise ConfigError(
            f"no native strategy {name!r}",
            where=where,
            key=f"{path}.strategy",
            hint=choice_hint(name, tuple(NATIVE_STRATEGIES)),
        )
    kind = NATIVE_STRATEGIES[name]
    params = kind(**convert_table(kind, process.params, where=where, path=f"{path}.params"))
    fields: dict[str, Any] = msgspec.to_builtins(params)
    if "quantity" in fields:
        key = f"{path}.params.quantity"
        quantity = _amount(fields["quantity"], key, where, instrument.parse_quantity) or instrument.lot
        if quantity < 0:
            raise ConfigError("must not be negative", where=where, key=key)
        fields["quantity"] = instrument.format_quantity(quantity)
    return msgspec.structs.replace(process, params=fields)


def _amount(text: str, key: str, where: str, parse: Any) -> int:
    try:
        units: int = parse(text)
    except OrderError as error:
        raise ConfigError(str(error).partition(": ")[2], where=where, key=key) from None
    return units
