"""Tables on a terminal of any width."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["print_whole"]

_ANY_WIDTH = 1000


def print_whole(console: Console, table: Table) -> None:
    """Print a table with no cell cut short: with narrower gaps where it is wider than the terminal, and if it
    must be past the terminal's edge. Half a number is a wrong number."""
    options = console.options.update(max_width=_ANY_WIDTH)
    width, needed = console.width, console.measure(table, options=options).maximum
    if needed > width:
        table.padding = (0, 1, 0, 0)
        needed = console.measure(table, options=options).maximum
    console.width = max(width, needed)
    try:
        console.print(table)
    finally:
        console.width = width
