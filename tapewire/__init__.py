"""tapewire: a journal-based trading runtime.

The public names are imported when they are first used, so that `import tapewire` stays quick and a hot
process loads only what it needs.
"""

from __future__ import annotations

from importlib import import_module

# As typing has it; importing typing is most of what this module costs.
TYPE_CHECKING = False

__version__ = "0.1.0"

# A name of this module -> the module it is defined in.
_PUBLIC = {
    "BookTicker": "._native",
    "ConfigError": ".runtime.errors",
    "Depth": "._native",
    "Fill": "._native",
    "InputError": ".runtime.errors",
    "Instrument": ".runtime.instrument",
    "Journal": ".journal",
    "JournalCorrupt": ".journal.errors",
    "JournalFull": ".journal.errors",
    "JournalGap": ".journal.errors",
    "JournalLocked": ".journal.errors",
    "JournalVersionUnsupported": ".journal.errors",
    "Level": "._native",
    "NotAJournal": ".journal.errors",
    "OffLot": ".runtime.errors",
    "OffTick": ".runtime.errors",
    "Order": ".runtime.market.orders",
    "OrderError": ".runtime.errors",
    "OrderReport": "._native",
    "OrderStatus": ".runtime.market.orders",
    "OutOfRange": ".runtime.errors",
    "Position": ".runtime.market.positions",
    "RunExists": ".runtime.errors",
    "RunNotFound": ".journal.errors",
    "Strategy": ".runtime.strategy",
    "StreamNotFound": ".journal.errors",
    "TapewireError": ".journal.errors",
    "Timer": "._native",
    "Trade": "._native",
}

__all__ = ["__version__", *sorted(_PUBLIC)]

if TYPE_CHECKING:
    from ._native import BookTicker as BookTicker
    from ._native import Depth as Depth
    from ._native import Fill as Fill
    from ._native import Level as Level
    from ._native import OrderReport as OrderReport
    from ._native import Timer as Timer
    from ._native import Trade as Trade
    from .journal import Journal as Journal
    from .journal.errors import JournalCorrupt as JournalCorrupt
    from .journal.errors import JournalFull as JournalFull
    from .journal.errors import JournalGap as JournalGap
    from .journal.errors import JournalLocked as JournalLocked
    from .journal.errors import JournalVersionUnsupported as JournalVersionUnsupported
    from .journal.errors import NotAJournal as NotAJournal
    from .journal.errors import RunNotFound as RunNotFound
    from .journal.errors import StreamNotFound as StreamNotFound
    from .journal.errors import TapewireError as TapewireError
    from .runtime.errors import ConfigError as ConfigError
    from .runtime.errors import InputError as InputError
    from .runtime.errors import OffLot as OffLot
    from .runtime.errors import OffTick as OffTick
    from .runtime.errors import OrderError as OrderError
    from .runtime.errors import OutOfRange as OutOfRange
    from .runtime.errors import RunExists as RunExists
    from .runtime.instrument import Instrument as Instrument
    from .runtime.market.orders import Order as Order
    from .runtime.market.orders import OrderStatus as OrderStatus
    from .runtime.market.positions import Position as Position
    from .runtime.strategy import Strategy as Strategy


def __getattr__(name: str) -> object:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(module, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
