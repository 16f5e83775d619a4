"""What a topology says, as typed structs. `topology.py` reads them from TOML.

Everything here is plain data that round-trips through the manifest; decimals stay text, as written.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Meta

from .instrument import Instrument
from .validate import DECIMAL

# A stream name field holds 32 bytes with its NUL; the consumption record's name adds ".consumed".
PROCESS_NAME_MAX = 22
PAGE_BYTES_MIN = 65_536

Role: TypeAlias = Literal["market_data", "strategy", "trade_gateway", "ledger"]
Pace: TypeAlias = Literal["auto", "lockstep", "free"]
Cpu: TypeAlias = int | list[int] | str

CpuField: TypeAlias = Annotated[Cpu, Meta(description='a CPU number, a list of them, or "any"')]
DecimalText: TypeAlias = Annotated[str, Meta(extra=DECIMAL, description='a decimal number such as "0.01"')]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The `[run]` table: what concerns the run as a whole."""

    page_bytes: Annotated[
        int,
        Meta(
            ge=PAGE_BYTES_MIN, le=2**30, multiple_of=4096, description="bytes of a journal page, whole 4096s"
        ),
    ] = 16 * 1024 * 1024
    durability: Literal["none", "interval"] = "interval"
    interval_ms: Annotated[
        int, Meta(ge=1, le=60_000, description="time between two syncs, in milliseconds")
    ] = 100
    live_dir: Annotated[str, Meta(min_length=1, description="a directory in shared memory")] = "/dev/shm"
    start_timeout_s: Annotated[
        float, Meta(gt=0, le=86_400, description="how long a start may take, in seconds")
    ] = 20.0
    latency: Literal["median", "tail"] = "median"


class InstrumentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One `[[instruments]]` table; fees are fractions of the notional, negative for a rebate."""

    symbol: str
    tick: DecimalText = "0.01"
    lot: DecimalText = "0.001"
    quantity_exponent: Annotated[int, Meta(ge=0, le=18, description="a quantity unit is 10^-this")] = 9
    maker_fee: DecimalText = "0"
    taker_fee: DecimalText = "0"


class ProcessConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What every process of a topology has; `name` is its key under `[processes]`."""

    name: str
    role: str
    cpu: CpuField = "any"
    wait: str = "auto"
    sched: str = "other"
    nice: Annotated[int, Meta(ge=-20, le=19, description="niceness, -20 to 19")] = 0
    mlock: bool = False
    on_exit: Literal["stop-run", "continue"] = "stop-run"

    # Consumption is recorded by every process whose output depends on the order it saw things in.
    records_consumption: ClassVar[bool] = True


class MasterConfig(ProcessConfig, frozen=True, kw_only=True):
    """The optional `[processes.master]` table: where the master and its recorder run."""

    records_consumption: ClassVar[bool] = False


class MarketDataConfig(ProcessConfig, frozen=True, kw_only=True):
    """What both feeds have. `pace` is never "auto" once a topology is loaded."""

    feed: str
    speed: Annotated[str, Meta(description='"1x", "10x" or "max"')] = "1x"
    pace: Pace = "auto"
    linger_us: Annotated[int, Meta(ge=0, le=1_000_000, description="how long it yields after publishing")] = (
        20
    )
    spin_window_us: Annotated[
        int, Meta(ge=0, le=1_000_000, description="how long it spins before an event")
    ] = 100

    records_consumption: ClassVar[bool] = False

    @property
    def speed_factor(self) -> float | None:
        """How much faster than the clock: 1.0 for 1x; None for "max", which does not pace at all."""
        return None if self.speed == "max" else float(self.speed.removesuffix("x"))


class SyntheticFeedConfig(MarketDataConfig, frozen=True, kw_only=True):
    """`feed = "synthetic"`: depth events from a seeded generator."""

    events: Annotated[Count, Meta(description="how many depth events; 0 runs until stopped")] = 0
    interval_us: Annotated[
        int, Meta(ge=1, le=3_600_000_000, description="time between two depth events, in microseconds")
    ] = 300
    arrivals: Literal["constant", "poisson"] = "constant"
    seed: Annotated[Count, Meta(description="seed of the generator")] = 42
    start_price: DecimalText = "100"
    spread_ticks: Annotated[
        int, Meta(ge=1, le=1_000_000, description="best ask minus best bid, in ticks")
    ] = 1


class BinanceFeedConfig(MarketDataConfig, frozen=True, kw_only=True):
    """`feed = "binance"`: a recording of Binance streams; `input` is absolute once loaded."""

    input: Annotated[str, Meta(description="the recording; give it with --input FILE")] = ""


class StrategyConfig(ProcessConfig, frozen=True, kw_only=True):
    """A strategy: `native:NAME` or `FILE.py:Class` (absolute once loaded) or `package.module:Class`."""

    strategy: str
    params: dict[str, Any] = msgspec.field(default_factory=dict)
    throttle_per_s: Annotated[Count, Meta(description="requests a second; 0 switches the throttle off")] = (
        1000
    )
    max_position: DecimalText = "10"

    @property
    def is_native(self) -> bool:
        """Whether it is one of the strategies built into the extension module."""
        return self.strategy.startswith("native:")


class AlternatingParams(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of `native:alternating`: on each `every`-th depth one limit order of `quantity` at the
    touch, buying and selling in turn. An empty quantity is one lot."""

    every: Annotated[int, Meta(ge=1, le=2**31, description="an order on each N-th depth event")] = 5
    quantity: DecimalText = "0"


NATIVE_STRATEGIES: dict[str, type[msgspec.Struct]] = {"alternating": AlternatingParams}


class TradeGatewayConfig(ProcessConfig, frozen=True, kw_only=True):
    """The venue side."""

    venue: Literal["simulated"] = "simulated"
    max_open_orders: Annotated[int, Meta(ge=1, le=10_000_000, description="working orders at one time")] = (
        100_000
    )


class LedgerConfig(ProcessConfig, frozen=True, kw_only=True):
    """The ledger: positions, PnL and order life cycles from all streams."""


ROLES: dict[str, tuple[type[ProcessConfig], ...]] = {
    "market_data": (SyntheticFeedConfig, BinanceFeedConfig),
    "strategy": (StrategyConfig,),
    "trade_gateway": (TradeGatewayConfig,),
    "ledger": (LedgerConfig,),
}
FEEDS: dict[str, type[MarketDataConfig]] = {"synthetic": SyntheticFeedConfig, "binance": BinanceFeedConfig}

# The order in which a stop goes through the roles: sources first, so that everything downstream drains.
STOP_ORDER: tuple[str, ...] = ("market_data", "strategy", "trade_gateway", "ledger")


class StreamInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A stream of a run: `kind` is "data", or "consumed" for a process's consumption record."""

    id: int
    name: str
    process: str
    kind: Literal["data", "consumed"]


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """A checked topology. `processes` is in the order of the file and holds no master; `source` names
    the file it came from."""

    name: str
    source: str
    run: RunConfig
    instruments: tuple[Instrument, ...]
    processes: dict[str, ProcessConfig]
    master: MasterConfig

    def streams(self) -> tuple[StreamInfo, ...]:
        """Every stream of the run; ids from 1 in the order of the processes, data streams first."""
        named: list[tuple[str, str, Literal["data", "consumed"]]] = [
            (name, name, "data") for name in self.processes
        ]
        named += [
            (f"{name}.consumed", name, "consumed")
            for name, process in self.processes.items()
            if process.records_consumption
        ]
        return tuple(
            StreamInfo(id=number, name=stream, process=process, kind=kind)
            for number, (stream, process, kind) in enumerate(named, start=1)
        )

    def by_role(self, role: str) -> tuple[ProcessConfig, ...]:
        """The processes of that role, in the order of the file."""
        return tuple(process for process in self.processes.values() if process.role == role)

    @property
    def feed(self) -> SyntheticFeedConfig | BinanceFeedConfig:
        """The market data process."""
        (feed,) = self.by_role("market_data")
        assert isinstance(feed, SyntheticFeedConfig | BinanceFeedConfig)
        return feed

    def instrument(self, symbol: str) -> Instrument:
        """The instrument of that symbol; raises KeyError."""
        for instrument in self.instruments:
            if instrument.symbol == symbol:
                return instrument
        raise KeyError(symbol)

    def to_dict(self) -> dict[str, Any]:
        """The effective configuration as plain data, every key present: what the manifest keeps."""
        processes = {name: _fields(process) for name, process in self.processes.items()}
        return {
            "name": self.name,
            "source": self.source,
            "run": _fields(self.run),
            "instruments": [instrument.to_dict() for instrument in self.instruments],
            "processes": processes,
            "master": _fields(self.master),
        }

    @classmethod
    def from_dict(cls, config: dict[str, Any]) -> Topology:
        """The inverse of `to_dict`. It trusts its input: nothing is checked against this host again."""
        processes: dict[str, ProcessConfig] = {}
        for name, fields in config["processes"].items():
            role = fields["role"]
            kind = FEEDS[fields["feed"]] if role == "market_data" else ROLES[role][0]
            processes[name] = msgspec.convert({**fields, "name": name}, kind)
        return cls(
            name=config["name"],
            source=config["source"],
            run=msgspec.convert(config["run"], RunConfig),
            instruments=tuple(Instrument.from_dict(fields) for fields in config["instruments"]),
            processes=processes,
            master=msgspec.convert({"name": "master", **config["master"]}, MasterConfig),
        )


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(struct)
    fields.pop("name", None)
    return fields
