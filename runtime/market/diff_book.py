"""One instrument's order book from a snapshot and the stream of its updates ("diffs").

The rule is Binance's, "How to manage a local order book correctly" of the spot API's web-socket streams:

1. buffer the updates until a snapshot comes;
2. drop those with `u <= lastUpdateId`;
3. the first one applied must have `U <= lastUpdateId + 1 <= u`;
4. from then on each `U` must be the previous `u + 1`. A larger `U` means that updates are missing: the book
   is wrong from there on and starts again at step 1.

An update that brings nothing new (`u` already reached, as after a reconnection) is dropped. One that overlaps
is applied: its quantities are absolute, so nothing is lost or counted twice.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from ..._native import L2Book
from .binance_messages import DepthUpdate, Snapshot

__all__ = ["BUY", "SELL", "DiffBook", "ReceivedUpdate", "Verdict"]

BUY, SELL = 1, 2
# Five minutes of updates at one each 100 ms; a book that waits longer would hold memory without end.
_BUFFER_UPDATES = 3000


class Verdict(enum.Enum):
    """What became of an update or a snapshot."""

    APPLIED = "applied"
    BUFFERED = "buffered"
    GAP = "gap"  # and buffered: it may follow the next snapshot
    OLDER = "older than the snapshot"
    KNOWN = "already in the book"
    DISCARDED = "waited too long for a snapshot"
    STALE_SNAPSHOT = "snapshot older than the book"
    EARLY_SNAPSHOT = "snapshot older than the buffered updates"


class ReceivedUpdate(NamedTuple):
    """An update and where it came from."""

    line: int
    receive_time: int
    update: DepthUpdate


class DiffBook:
    """The book of one instrument, kept by the rule above.

    `valid` is False until a snapshot came and again after a gap; `book` is then empty. `last_update_id` is
    the `u` that the book has reached, `expected` and `found` describe the last gap.
    Raises ValueError, naming the string, for a price or quantity that is no number of this instrument; `line`
    then says in which line of the recording.
    """

    def __init__(self, symbol: str, instrument_id: int, quantity_exponent: int) -> None:
        self.symbol = symbol
        self.instrument_id = instrument_id
        self.quantity_exponent = quantity_exponent
        self.book = L2Book(quantity_exponent)
        self.valid = False
        self.seen = False  # an update of this instrument was in the recording
        self.last_update_id = 0
        self.overlaps = 0
        self.expected = 0
        self.found = 0
        self.line = 0  # of the update or snapshot being worked on
        self._bridged = False  # an update was applied on top of the snapshot
        self._buffer: deque[ReceivedUpdate] = deque()

    @property
    def buffered(self) -> int:
        """Updates that wait for a snapshot."""
        return len(self._buffer)

    def on_update(self, received: ReceivedUpdate) -> Verdict:
        """Apply, buffer or drop one update. DISCARDED means: buffered, and the oldest one given up for it."""
        update = received.update
        self.seen = True
        self.line = received.line
        if not self.valid:
            self._buffer.append(received)
            if len(self._buffer) > _BUFFER_UPDATES:
                self._buffer.popleft()
                return Verdict.DISCARDED
            return Verdict.BUFFERED
        if update.last_id <= self.last_update_id:
            return Verdict.KNOWN if self._bridged else Verdict.OLDER
        if update.first_id > self.last_update_id + 1:
            self.expected, self.found = self.last_update_id + 1, update.first_id
            self.valid = False
            self.book.clear()
            self._buffer.append(received)
            return Verdict.GAP
        if self._bridged and update.first_id <= self.last_update_id:
            self.overlaps += 1
        self.book.apply(BUY, update.bids)
        self.book.apply(SELL, update.asks)
        self.last_update_id = update.last_id
        self._bridged = True
        return Verdict.APPLIED

    def on_snapshot(self, snapshot: Snapshot, line: int) -> Iterator[tuple[Verdict, ReceivedUpdate | None]]:
        """Restart from `snapshot`: yields its own verdict (with None), then one per buffered update.

        The book is in the state of that step while the caller holds it.
        """
        self.line = line
        at = snapshot.last_id
        if self.valid and at < self.last_update_id:
            yield Verdict.STALE_SNAPSHOT, None
            return
        newer = next((held.update for held in self._buffer if held.update.last_id > at), None)
        if newer is not None and newer.first_id > at + 1:
            yield Verdict.EARLY_SNAPSHOT, None
            return
        self.book.clear()
        self.book.apply(BUY, snapshot.bids)
        self.book.apply(SELL, snapshot.asks)
        self.valid = True
        self.last_update_id = at
        self._bridged = False
        waiting, self._buffer = self._buffer, deque()
        yield Verdict.APPLIED, None
        for received in waiting:
            yield self.on_update(received), received
