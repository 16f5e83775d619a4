"""The one rounding rule of cash and average prices."""

from __future__ import annotations

__all__ = ["round_half_even"]


def round_half_even(numerator: int, denominator: int) -> int:
    """The int nearest to numerator / denominator, a tie to the even one. `denominator` is not zero."""
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    quotient, rest = divmod(numerator, denominator)
    twice = 2 * rest
    return quotient + (twice > denominator or (twice == denominator and quotient & 1))
