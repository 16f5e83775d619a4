"""The life of orders: legal transitions, and the impossible ones, which are counted and never raised."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapewire.journal.format import OrderAction, Reason, ReportStatus, Side
from tapewire.runtime.market.exec_ids import WINDOW, ExecIds
from tapewire.runtime.market.instruments import Instrument
from tapewire.runtime.market.order_tracker import IMPOSSIBLE_KINDS, OrderTracker
from tapewire.runtime.market.orders import Order, OrderStatus

STRATEGY, VENUE = 3, 2
FIRST = STRATEGY << 48 | 1
BTC = Instrument(id=1, symbol="BTCUSDT", tick=10_000_000, lot=10_000)
NEW, REPLACE, CANCEL = OrderAction.NEW, OrderAction.REPLACE, OrderAction.CANCEL
ACCEPTED, REJECTED, REPLACED = ReportStatus.ACCEPTED, ReportStatus.REJECTED, ReportStatus.REPLACED
CANCELLED, EXPIRED = ReportStatus.CANCELLED, ReportStatus.EXPIRED


class Story:
    """Frames about orders, numbered as they come; every argument has a default that fits a good order."""

    def __init__(self, keep_done: int | None = None) -> None:
        self.tracker = OrderTracker({1: BTC}, keep_done)
        self.seq = 0
        self.requests = 0
        self.execs = 0
        self.filled: dict[int, int] = {}

    def send(
        self, action: int = NEW, order_id: int = FIRST, *, price: int = 100, quantity: int = 10, side: int = 1
    ) -> Order | None:
        self.seq += 1
        self.requests += 1
        return self.tracker.on_input(
            STRATEGY, self.seq, order_id, 1, action, side, 1, 1, price, quantity, self.requests
        )

    def report(self, status: int, order_id: int = FIRST, **given: Any) -> Order | None:
        self.seq += 1
        answers = {ACCEPTED: NEW, REJECTED: NEW, REPLACED: REPLACE, CANCELLED: CANCEL, EXPIRED: 0}
        return self.tracker.on_report(
            given.get("stream", VENUE),
            self.seq,
            order_id,
            given.get("instrument", 1),
            status,
            given.get("side", 1),
            given.get("reason", 0),
            given.get("price", 100),
            given.get("quantity", 10),
            given.get("filled", self.filled.get(order_id, 0)),
            given.get("request", self.requests),
            given.get("action", answers[ReportStatus(status)]),
        )

    def fill(self, quantity: int, order_id: int = FIRST, **given: Any) -> tuple[Order | None, bool]:
        self.seq += 1
        self.execs += 1
        self.filled[order_id] = self.filled.get(order_id, 0) + quantity
        return self.tracker.on_fill(
            VENUE,
            self.seq,
            order_id,
            given.get("exec_id", self.execs),
            given.get("instrument", 1),
            given.get("side", 1),
            given.get("price", 100),
            quantity,
            given.get("filled", self.filled[order_id]),
            given.get("fee", 0),
        )

    def working(self) -> Order:
        order = self.send()
        assert order is not None
        self.report(ACCEPTED)
        return order

    @property
    def impossible(self) -> dict[str, int]:
        return {kind: count for kind, count in self.tracker.impossible.items() if count}


def test_accepted_filled_in_parts() -> None:
    story = Story()
    order = story.send()
    assert order is not None
    assert order.status == OrderStatus.PENDING_NEW
    story.report(ACCEPTED)
    assert order.status == OrderStatus.NEW
    story.fill(4, price=101, fee=7)
    assert (order.status, order.filled, order.leaves) == (OrderStatus.PARTIALLY_FILLED, 4, 6)
    story.fill(6, price=106, fee=-2)
    assert (order.status, order.filled, order.leaves, order.is_open) == (OrderStatus.FILLED, 10, 0, False)
    assert (order.fees, order.fills) == (5, 2)
    assert order.average_fill_price == BTC.price(104)
    assert not story.tracker.orders
    assert list(story.tracker.done) == [order]
    assert story.impossible == {}


@pytest.mark.parametrize(
    ("status", "end"),
    [
        (REJECTED, OrderStatus.REJECTED),
        (EXPIRED, OrderStatus.EXPIRED),
        (CANCELLED, OrderStatus.CANCELLED),
    ],
)
def test_ends_of_a_new_order(status: int, end: OrderStatus) -> None:
    story = Story()
    order = story.send()
    assert order is not None
    if status != REJECTED:
        story.report(ACCEPTED)
    story.report(status, reason=Reason.NOT_FILLABLE)
    assert (order.status, order.leaves, order.reason) == (end, 0, Reason.NOT_FILLABLE)
    assert story.impossible == {}


def test_cancel_and_its_rejection() -> None:
    story = Story()
    order = story.working()
    story.fill(3)
    story.send(CANCEL)
    assert order.status == OrderStatus.PENDING_CANCEL
    story.fill(2)
    assert order.status == OrderStatus.PENDING_CANCEL
    story.report(REJECTED, action=CANCEL, reason=Reason.CAPACITY)
    assert (order.status, order.reason) == (OrderStatus.PARTIALLY_FILLED, Reason.CAPACITY)
    story.send(CANCEL)
    story.report(CANCELLED)
    assert (order.status, order.filled, order.leaves) == (OrderStatus.CANCELLED, 5, 0)
    assert story.impossible == {}


def test_replace_takes_price_and_total_quantity() -> None:
    story = Story()
    order = story.working()
    story.fill(4)
    story.send(REPLACE, price=99, quantity=20)
    assert (order.status, order.price, order.quantity) == (OrderStatus.PENDING_REPLACE, 100, 10)
    story.report(REPLACED, price=99, quantity=20)
    assert (order.status, order.price, order.quantity) == (OrderStatus.PARTIALLY_FILLED, 99, 20)
    assert order.leaves == 16
    assert story.impossible == {}


@pytest.mark.parametrize("total", [4, 3])
def test_replace_to_what_is_filled_completes(total: int) -> None:
    story = Story()
    order = story.working()
    story.fill(4)
    story.send(REPLACE, quantity=total)
    story.report(REPLACED, quantity=total)
    assert (order.status, order.quantity, order.filled, order.leaves) == (OrderStatus.FILLED, 4, 4, 0)
    assert story.impossible == {}


def test_several_requests_under_way() -> None:
    story = Story()
    order = story.working()
    story.send(REPLACE, price=98)
    replace = story.requests
    story.send(CANCEL)
    assert order.status == OrderStatus.PENDING_CANCEL
    story.report(REPLACED, price=98, request=replace)
    assert (order.status, order.price) == (OrderStatus.PENDING_CANCEL, 98)
    story.report(CANCELLED)
    assert order.status == OrderStatus.CANCELLED
    assert story.impossible == {}


@pytest.mark.parametrize("keep_done", [0, None])
def test_a_cancel_that_crosses_the_last_fill(keep_done: int | None) -> None:
    story = Story(keep_done)
    order = story.working()
    story.send(CANCEL)
    story.fill(10)
    assert order.status == OrderStatus.FILLED
    answered = story.report(REJECTED, action=CANCEL, reason=Reason.ORDER_DONE)
    assert answered is order
    assert order.status == OrderStatus.FILLED
    assert story.impossible == {}


def test_a_cancel_sent_after_the_end_was_journaled() -> None:
    """The strategy had not seen the fill yet when it sent the cancel."""
    story = Story(0)
    story.working()
    story.fill(10)
    assert story.send(CANCEL) is None
    story.report(REJECTED, action=CANCEL, reason=Reason.ORDER_DONE)
    assert story.impossible == {}


def test_unsolicited_cancel_when_the_strategy_failed() -> None:
    story = Story()
    order = story.working()
    story.report(CANCELLED, action=0, request=0, reason=Reason.STRATEGY_FAILED)
    assert (order.status, order.reason) == (OrderStatus.CANCELLED, Reason.STRATEGY_FAILED)
    assert story.impossible == {}


def test_refused_by_its_own_process() -> None:
    story = Story()
    order = story.report(REJECTED, stream=STRATEGY, reason=Reason.THROTTLED)
    assert order is not None
    assert (order.status, order.is_open) == (OrderStatus.REJECTED, False)
    working = story.send(NEW, FIRST + 1)
    assert working is not None
    story.report(ACCEPTED, FIRST + 1)
    story.report(REJECTED, FIRST + 1, stream=STRATEGY, action=REPLACE, reason=Reason.MAX_POSITION)
    assert working.status == OrderStatus.NEW
    assert story.impossible == {}


def impossible_fill_without_order(story: Story) -> None:
    assert story.fill(1, FIRST + 7) == (None, True)


def impossible_fill_after_done(story: Story) -> None:
    story.working()
    story.report(CANCELLED, action=0)
    assert story.fill(1) == (None, True)


def impossible_overfill(story: Story) -> None:
    order = story.working()
    assert story.fill(11) == (order, True)
    assert (order.status, order.filled, order.leaves) == (OrderStatus.FILLED, 11, 0)


def impossible_repeated_exec_id(story: Story) -> None:
    order = story.working()
    story.fill(2, exec_id=1)
    assert story.fill(2, exec_id=1) == (order, False)
    assert order.filled == 2


def impossible_exec_id_zero(story: Story) -> None:
    order = story.working()
    assert story.fill(2, exec_id=0) == (order, True)


def impossible_bad_fill(story: Story) -> None:
    order = story.working()
    assert story.fill(0) == (order, False)


def impossible_wrong_instrument_or_side(story: Story) -> None:
    story.working()
    story.fill(2, side=Side.SELL)


def impossible_filled_mismatch(story: Story) -> None:
    story.working()
    story.fill(2, filled=3)


def impossible_report_without_order(story: Story) -> None:
    assert story.report(ACCEPTED, FIRST + 7) is None


def impossible_answer_without_request(story: Story) -> None:
    order = story.working()
    story.report(REJECTED, action=CANCEL)
    assert order.status == OrderStatus.NEW


def impossible_illegal_transition(story: Story) -> None:
    order = story.working()
    story.report(ACCEPTED)
    assert order.status == OrderStatus.NEW


def impossible_request_without_order(story: Story) -> None:
    assert story.send(CANCEL, FIRST + 7) is None


def impossible_repeated_order_id(story: Story) -> None:
    order = story.working()
    assert story.send() is None
    assert order.status == OrderStatus.NEW


@pytest.mark.parametrize("kind", IMPOSSIBLE_KINDS)
def test_the_impossible_is_counted_by_kind(kind: str) -> None:
    story = Story(0)
    globals()[f"impossible_{kind}"](story)
    assert story.impossible == {kind: 1}
    assert story.tracker.impossible_total == 1
    (example,) = story.tracker.examples
    assert example["kind"] == kind
    assert example["seq"] == story.seq


def test_rejected_after_it_was_accepted_changes_nothing() -> None:
    story = Story()
    order = story.working()
    story.report(REJECTED)
    assert order.status == OrderStatus.NEW
    assert story.impossible == {"illegal_transition": 1}


def test_fill_before_the_acceptance_counts_but_fills() -> None:
    story = Story()
    order = story.send()
    assert order is not None
    assert story.fill(10) == (order, True)
    assert order.status == OrderStatus.FILLED
    assert story.impossible == {"illegal_transition": 1}


def test_examples_are_bounded() -> None:
    story = Story()
    for _ in range(100):
        story.report(ACCEPTED, FIRST + 7)
    assert story.impossible == {"report_without_order": 100}
    assert len(story.tracker.examples) == 20


@pytest.mark.parametrize(("keep", "kept"), [(None, 50), (10, 10), (0, 0)])
def test_finished_orders_do_not_pile_up(keep: int | None, kept: int) -> None:
    story = Story(keep)
    for number in range(50):
        story.send(NEW, FIRST + number)
        story.report(ACCEPTED, FIRST + number)
        story.fill(10, FIRST + number)
    assert len(story.tracker.done) == kept
    assert not story.tracker.orders
    assert story.impossible == {}


@given(st.lists(st.integers(1, 60), max_size=200))
def test_exec_ids_match_a_plain_set(ids: list[int]) -> None:
    execs, seen = ExecIds(), set[int]()
    for exec_id in ids:
        assert execs.is_new(exec_id) == (exec_id not in seen)
        seen.add(exec_id)


def test_exec_ids_stay_bounded_with_holes() -> None:
    execs = ExecIds()
    for exec_id in range(2, 400_000, 2):
        assert execs.is_new(exec_id)
        assert not execs.is_new(exec_id)
    assert len(execs._beyond) <= WINDOW


FRAME = st.one_of(
    st.tuples(st.just("input"), *[st.integers(0, 4)] * 4, *[st.integers(-3, 30)] * 2, st.integers(0, 6)),
    st.tuples(st.just("report"), *[st.integers(0, 6)] * 4, *[st.integers(-3, 30)] * 2, st.integers(0, 6)),
    st.tuples(st.just("fill"), *[st.integers(0, 4)] * 4, *[st.integers(-3, 30)] * 2, st.integers(0, 6)),
)


@given(frames=st.lists(FRAME, max_size=60), keep_done=st.sampled_from([0, 3, None]))
@settings(max_examples=300, deadline=None)
def test_no_frame_raises_and_orders_stay_whole(frames: list[Any], keep_done: int | None) -> None:
    """Whatever comes, nothing raises, and quantity = filled + leaves for every live order."""
    tracker = OrderTracker({1: BTC}, keep_done)
    for seq, (what, a, b, c, d, price, quantity, request) in enumerate(frames, 1):
        order_id = FIRST + a
        if what == "input":
            tracker.on_input(STRATEGY, seq, order_id, b, c % 3 + 1, d % 2 + 1, 1, 1, price, quantity, request)
        elif what == "report":
            stream = STRATEGY if d == 6 else VENUE
            tracker.on_report(
                stream, seq, order_id, b, c % 5 + 1, d % 2 + 1, 0, price, quantity, price, request, c % 4
            )
        else:
            tracker.on_fill(VENUE, seq, order_id, request, b, d % 2 + 1, price, quantity, quantity, 0)
        for order in tracker.orders.values():
            assert order.is_open
            assert order.quantity == order.filled + order.leaves
        for order in tracker.done:
            assert not order.is_open
            assert order.leaves == 0
            assert order.status in {"filled", "cancelled", "rejected", "expired"}
