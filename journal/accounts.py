"""Where every depth, order input and report of a run went in the join of cycles.py."""

from __future__ import annotations

import msgspec

from .errors import TapewireError

__all__ = ["Accounts"]


class Accounts(msgspec.Struct, frozen=True, kw_only=True):
    """Where every frame of the join went. Counts; an order, report or depth is in one class only.

    orders = other_root + root_missing + duplicate + without_report + cycles
    reports = local_refusal + other_root + market_caused + without_order + duplicate + root_missing + cycles
    cycles = negative + overflow + warmup + kept
    """

    depths: int
    depths_with_order: int
    depths_without_order: int
    orders: int
    orders_other_root: int
    orders_other_root_by_type: dict[str, int]
    orders_root_missing: int
    orders_duplicate: int
    orders_without_report: int
    reports: int
    reports_local_refusal: int
    reports_other_root: int
    reports_other_root_by_type: dict[str, int]
    reports_market_caused: int
    reports_without_order: int
    reports_duplicate: int
    reports_root_missing: int
    cycles: int
    negative: int
    negative_by_stage: dict[str, int]
    overflow: int
    warmup: int
    kept: int

    def rejected(self) -> dict[str, int]:
        """Order inputs that are in no distribution, by reason; with `kept` they add up to `orders`."""
        return {
            "warmup": self.warmup,
            "negative": self.negative,
            "overflow": self.overflow,
            "without_report": self.orders_without_report,
            "duplicate": self.orders_duplicate,
            "root_missing": self.orders_root_missing,
            "other_root": self.orders_other_root,
        }

    def check(self) -> None:
        """Raise TapewireError unless every sum holds; a failure is a defect of the analysis, not the run."""
        reports = (
            self.reports_local_refusal
            + self.reports_other_root
            + self.reports_market_caused
            + self.reports_without_order
            + self.reports_duplicate
            + self.reports_root_missing
            + self.cycles
        )
        sums = (
            ("orders", sum(self.rejected().values()) + self.kept, self.orders),
            ("reports", reports, self.reports),
            ("depths", self.depths_with_order + self.depths_without_order, self.depths),
            ("cycles", self.negative + self.overflow + self.warmup + self.kept, self.cycles),
        )
        for what, found, expected in sums:
            if found != expected:
                raise TapewireError(
                    f"analysis: {found} {what} accounted for, {expected} read; please report this"
                )
