"""The instruments of a run, by id and by symbol.

`Instrument` itself, with its ticks, lots and exact conversions, is in `runtime.instrument`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import OrderError
from ..instrument import Instrument

__all__ = ["Instrument", "InstrumentTable", "unknown_instrument"]


def unknown_instrument(instrument_id: int) -> Instrument:
    """Stands for an instrument id that no configuration names, so that its frames can still be shown."""
    return Instrument(id=instrument_id, symbol=f"#{instrument_id}", tick=1, lot=1)


class InstrumentTable(Mapping[str, Instrument]):
    """Instruments by symbol (as a mapping) and by id (`by_id`)."""

    def __init__(self, instruments: Iterable[Instrument]) -> None:
        self.by_id: dict[int, Instrument] = {}
        self._by_symbol: dict[str, Instrument] = {}
        for instrument in instruments:
            if instrument.id in self.by_id or instrument.symbol in self._by_symbol:
                raise OrderError(f"instrument {instrument.symbol!r} (id {instrument.id}) is there twice")
            self.by_id[instrument.id] = instrument
            self._by_symbol[instrument.symbol] = instrument

    @classmethod
    def from_manifest(cls, entries: Iterable[Mapping[str, Any]]) -> InstrumentTable:
        """From the `instruments` list of a run's manifest."""
        return cls(Instrument.from_dict(dict(entry)) for entry in entries)

    def __getitem__(self, symbol: str) -> Instrument:
        """Raises `OrderError` (not KeyError) for a symbol that the run does not have."""
        try:
            return self._by_symbol[symbol]
        except KeyError:
            known = ", ".join(self._by_symbol) or "none"
            raise OrderError(f"no instrument {symbol!r} in this run; it has {known}") from None

    def __contains__(self, symbol: object) -> bool:
        return symbol in self._by_symbol

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_symbol)

    def __len__(self) -> int:
        return len(self._by_symbol)
