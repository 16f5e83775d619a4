"""How a process waits and how it is scheduled: the texts of a topology, parsed and resolved.

Wait texts: `auto`, `spin`, `yield`, `park`, `hybrid [WINDOW]`, `sleep-spin [WINDOW]`, `batch [PERIOD]`,
where WINDOW and PERIOD are durations such as `200us` or `5ms`. Scheduling texts: `other`, `batch`,
`idle`, `fifo N`.
"""

from __future__ import annotations

import difflib
import re
from typing import Literal, TypeAlias, get_args

import msgspec

from .errors import ConfigError

WaitPolicy: TypeAlias = Literal["auto", "spin", "yield", "park", "hybrid", "sleep-spin", "batch"]
SchedPolicy: TypeAlias = Literal["other", "batch", "idle", "fifo"]

# A yielding window shorter than the event interval costs an order of magnitude at the median (one
# futex wake-up per event), and 5 ms spans every interval that is worth waiting for awake.
HYBRID_WINDOW_US = 5_000
SLEEP_SPIN_WINDOW_US = 100
# Far enough apart that a process off the event path does not decide the p90 of those that share its CPU.
BATCH_MS = 50

_DURATION = re.compile(r"(\d+)\s*(us|ms|s)")
_UNIT_US = {"us": 1, "ms": 1_000, "s": 1_000_000}
_DURATION_HINT = 'a duration is a whole number with us, ms or s, such as "5ms"'


class WaitSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How a process waits for its next event.

    `window_us` belongs to hybrid (how long it yields before it parks) and to sleep-spin (how long before
    the event it stops sleeping), `batch_ms` to batch; 0 elsewhere.
    """

    policy: WaitPolicy
    window_us: int = 0
    batch_ms: int = 0

    def __str__(self) -> str:
        if self.policy in ("hybrid", "sleep-spin") and self.window_us:
            return f"{self.policy} {duration_text(self.window_us)}"
        if self.policy == "batch":
            return f"batch {self.batch_ms}ms"
        return self.policy

    @property
    def blocks(self) -> bool:
        """Whether a process that waits like this gives its CPU up for good between two events."""
        return self.policy in ("park", "batch", "sleep-spin")


class SchedSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Scheduling class, and the real-time priority 1–99 of fifo (0 elsewhere)."""

    policy: SchedPolicy = "other"
    priority: int = 0

    def __str__(self) -> str:
        return f"fifo {self.priority}" if self.policy == "fifo" else self.policy


def duration_text(us: int) -> str:
    """`5ms` for 5000, `200us` for 200."""
    return f"{us // 1000}ms" if us and us % 1000 == 0 else f"{us}us"


def parse_wait(text: str, *, where: str = "", key: str = "wait") -> WaitSpec:
    """The policy that `text` names, with its default duration where it gives none; raises `ConfigError`."""
    name, _, argument = text.strip().partition(" ")
    argument = argument.strip()
    if name not in get_args(WaitPolicy):
        raise ConfigError(
            f"unknown wait policy {text!r}",
            where=where,
            key=key,
            hint=choice_hint(name, get_args(WaitPolicy)),
        )
    if name == "hybrid":
        window = _duration_us(argument, where, key) if argument else HYBRID_WINDOW_US
        return WaitSpec(policy="hybrid", window_us=window)
    if name == "sleep-spin":
        window = _duration_us(argument, where, key) if argument else 0
        return WaitSpec(policy="sleep-spin", window_us=window)
    if name == "batch":
        period_us = _duration_us(argument, where, key) if argument else BATCH_MS * 1_000
        if period_us % 1_000:
            raise ConfigError(f"batch period {argument!r} is not whole milliseconds", where=where, key=key)
        return WaitSpec(policy="batch", batch_ms=period_us // 1_000)
    if argument:
        raise ConfigError(
            f"{name!r} takes no duration, found {argument!r}",
            where=where,
            key=key,
            hint="only hybrid, sleep-spin and batch do",
        )
    return WaitSpec(policy=msgspec.convert(name, WaitPolicy))


def parse_sched(text: str, *, where: str = "", key: str = "sched") -> SchedSpec:
    """The scheduling class that `text` names; raises `ConfigError`."""
    name, _, argument = text.strip().partition(" ")
    argument = argument.strip()
    if name not in get_args(SchedPolicy):
        raise ConfigError(
            f"unknown scheduling class {text!r}",
            where=where,
            key=key,
            hint=choice_hint(name, ("other", "batch", "idle", "fifo N")),
        )
    if name == "fifo":
        if not argument.isdecimal() or not 1 <= int(argument) <= 99:
            raise ConfigError(
                f"fifo needs a priority from 1 to 99, found {argument or 'none'}",
                where=where,
                key=key,
                hint='write it as "fifo 10"',
            )
        return SchedSpec(policy="fifo", priority=int(argument))
    if argument:
        raise ConfigError(f"{name!r} takes no priority, found {argument!r}", where=where, key=key)
    return SchedSpec(policy=msgspec.convert(name, SchedPolicy))


def resolve_wait(spec: WaitSpec, role: str, *, latency: str = "median", spin_window_us: int = 0) -> WaitSpec:
    """The policy in force for a process of `role`; never `auto`.

    `auto` is sleep-spin for market_data (a timed source), batch for the ledger (off the event path) and
    hybrid for the others; never pure spinning. `latency = "tail"` parks the processes of the event
    path, to be woken on a CPU that a keeper keeps from sleeping. `spin_window_us` is the window of a
    sleep-spin without its own.
    """
    if role == "market_data":
        if spec.policy in ("auto", "sleep-spin"):
            window = spec.window_us or spin_window_us or SLEEP_SPIN_WINDOW_US
            return WaitSpec(policy="sleep-spin", window_us=window)
    elif role in ("ledger", "master"):
        if spec.policy == "auto":
            return WaitSpec(policy="batch", batch_ms=BATCH_MS)
    elif latency == "tail" and spec.policy != "batch":
        return WaitSpec(policy="park")
    elif spec.policy == "auto":
        return WaitSpec(policy="hybrid", window_us=HYBRID_WINDOW_US)
    return spec


def choice_hint(found: str, known: tuple[str, ...] | list[str]) -> str:
    """`did you mean X? known: A, B`, the first half only where something is near."""
    near = difflib.get_close_matches(found, known, n=1, cutoff=0.5)
    guess = f"did you mean {near[0]!r}? " if near else ""
    return f"{guess}known: {', '.join(known)}"


def _duration_us(text: str, where: str, key: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise ConfigError(f"not a duration: {text!r}", where=where, key=key, hint=_DURATION_HINT)
    return int(match[1]) * _UNIT_US[match[2]]
