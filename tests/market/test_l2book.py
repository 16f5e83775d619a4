"""The native book and decimal parser against plain Python."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapewire._native import L2Book, parse_decimal

BUY, SELL = 1, 2
INT64_MAX = 2**63 - 1


class ReferenceBook:
    """The same book as two dicts."""

    def __init__(self) -> None:
        self.sides: dict[int, dict[int, int]] = {BUY: {}, SELL: {}}

    def set(self, side: int, price: int, quantity: int) -> None:
        if quantity:
            self.sides[side][price] = quantity
        else:
            self.sides[side].pop(price, None)

    def depth(self, levels: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        bids = sorted(self.sides[BUY].items(), reverse=True)
        asks = sorted(self.sides[SELL].items())
        return bids[:levels], asks[:levels]


# Few prices, so that levels are set again, removed, and removed when absent.
sets = st.tuples(st.sampled_from([BUY, SELL]), st.integers(1, 40), st.integers(0, 5))
batches = st.lists(st.tuples(st.sampled_from([BUY, SELL]), st.lists(sets, max_size=60), st.booleans()))


def text(value: int) -> str:
    return f"{Decimal(value).scaleb(-9):f}"


@given(batches)
def test_book_equals_two_dicts(batches: list[tuple[int, list[tuple[int, int, int]], bool]]) -> None:
    book, reference = L2Book(), ReferenceBook()
    for side, updates, clear in batches:
        if clear:
            book.clear()
            reference = ReferenceBook()
        # One by one, then the same kind of thing as one batch of text.
        for each, price, quantity in updates[::2]:
            book.set(each, price, quantity)
            reference.set(each, price, quantity)
        batch = [(text(price), text(quantity)) for _, price, quantity in updates[1::2]]
        assert book.apply(side, batch) == len(batch)
        for _, price, quantity in updates[1::2]:
            reference.set(side, price, quantity)

        assert book.depth(1000) == reference.depth(1000)
        assert book.depth(3) == reference.depth(3)
        bids, asks = reference.depth(1)
        best = (bids[0] if bids else None, asks[0] if asks else None)
        assert book.best() == best
        assert book.counts() == (len(reference.sides[BUY]), len(reference.sides[SELL]))
        assert len(book) == sum(book.counts())
        assert book.crossed == (bool(bids and asks) and bids[0][0] >= asks[0][0])


def test_snapshot_of_an_empty_side_keeps_the_last_of_a_price() -> None:
    book = L2Book()
    book.apply(BUY, [["3", "1"], ["2", "1"], ["3", "0"], ["1", "1"], ["2", "7"]])
    assert book.depth()[0] == [(2 * 10**9, 7 * 10**9), (10**9, 10**9)]


def test_quantity_exponent_is_that_of_the_instrument() -> None:
    book = L2Book(quantity_exponent=2)
    book.apply(SELL, [["0.000000001", "900000000000000.25"]])
    assert book.best() == (None, (1, 90_000_000_000_000_025))


@pytest.mark.parametrize(
    ("levels", "error", "named"),
    [
        ([["1", "1"], ["6173x", "1"]], ValueError, 'price "6173x": not a plain decimal'),
        ([["1", "1"], ["2", "1e5"]], ValueError, 'quantity "1e5"'),
        ([["1", "1"], ["0", "1"]], ValueError, 'price "0": must be above zero'),
        ([["1", "1"], ["-1", "1"]], ValueError, 'price "-1"'),
        ([["1", "1"], ["2", "-1"]], ValueError, 'quantity "-1": is negative'),
        ([["1", "1"], ["2", "0.0000000001"]], ValueError, "more decimal places"),
        ([["1", "1"], ["9223372037", "1"]], ValueError, "too large"),
        ([["1", "1"], ["1" * 1000 + "x", "1"]], ValueError, r"1\.\.\.\""),
        ([["1", "1"], ["2"]], TypeError, "pair"),
        ([["1", "1"], ["2", "3", "4"]], TypeError, "pair"),
        ([["1", "1"], 5], TypeError, "pair"),
        ([["1", "1"], [2, "1"]], TypeError, "price must be a str"),
        ([["1", "1"], ["2", None]], TypeError, "quantity must be a str"),
    ],
)
def test_a_bad_level_is_named_and_changes_nothing(
    levels: list[list[str]], error: type[Exception], named: str
) -> None:
    book = L2Book()
    book.apply(BUY, [["5", "5"]])
    with pytest.raises(error, match=named) as caught:
        book.apply(BUY, levels)
    assert len(str(caught.value)) < 200
    assert book.depth() == ([(5 * 10**9, 5 * 10**9)], [])


def test_bad_arguments_are_refused() -> None:
    book = L2Book()
    with pytest.raises(ValueError, match="side must be"):
        book.apply(3, [])
    with pytest.raises(ValueError, match="side must be"):
        book.set(0, 1, 1)
    with pytest.raises(ValueError, match="above zero"):
        book.set(BUY, 0, 1)
    with pytest.raises(ValueError, match="not negative"):
        book.set(BUY, 1, -1)
    with pytest.raises(ValueError, match=r"0 \.\. 18"):
        L2Book(19)
    assert len(book) == 0


@given(st.integers(-INT64_MAX, INT64_MAX), st.integers(0, 18), st.integers(0, 4))
def test_every_int64_survives_text(value: int, exponent: int, zeros: int) -> None:
    written = f"{Decimal(value).scaleb(-exponent):f}"
    if zeros:
        written += ("." if "." not in written else "") + "0" * zeros
    assert parse_decimal(written, exponent) == value


@given(st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{1,25})?", fullmatch=True), st.integers(0, 18))
def test_numbers_are_exact_or_refused(written: str, exponent: int) -> None:
    exact = Decimal(written).as_integer_ratio()
    scaled, rest = divmod(exact[0] * 10**exponent, exact[1])
    if rest or abs(scaled) > INT64_MAX:
        with pytest.raises(ValueError, match=r"too large|more decimal places"):
            parse_decimal(written, exponent)
    else:
        assert parse_decimal(written, exponent) == scaled


@given(st.text(max_size=12))
def test_nothing_but_plain_decimals_is_a_number(written: str) -> None:
    whole, point, fraction = written.removeprefix("-").partition(".")

    def digits(part: str) -> bool:
        return part.isascii() and part.isdigit()

    if digits(whole) and (digits(fraction) if point else True):
        parse_decimal(written, 9)
    else:
        with pytest.raises(ValueError, match="not a plain decimal"):
            parse_decimal(written, 9)


@pytest.mark.parametrize(
    "written", ["", "-", ".", "1.", ".5", "+1", "1e5", " 1", "1 ", "0x1", "1_0", "nan", "1.2.3"]
)
def test_garbage_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="not a plain decimal"):
        parse_decimal(written)


def test_exponent_is_checked() -> None:
    assert parse_decimal("9.223372036854775807", 18) == INT64_MAX
    with pytest.raises(ValueError, match=r"0 \.\. 18"):
        parse_decimal("1", 19)
