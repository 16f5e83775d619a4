"""`tapewire positions` and `tapewire orders`: what a run traded and what it earned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import rich_click

from .common import (
    json_option,
    print_json,
    print_table,
    run_argument,
    runs_dir_option,
    warn_missing_streams,
)

if TYPE_CHECKING:
    from ..runtime.manifest import Manifest
    from ..runtime.market.ledger import Ledger
    from ..runtime.market.orders import Order

__all__ = ["ledger_summary", "orders", "positions", "print_ledger_summary"]

_POSITION_COLUMNS = (
    "strategy", "instrument", "position", "average", "mark", "realised", "unrealised", "fees", "net", "fills",
)  # fmt: skip
_COUNT_COLUMNS = (
    "strategy", "instrument", "orders", "fills", "bought", "sold", "rejected", "refused", "replaced",
    "cancelled", "expired",
)  # fmt: skip
_ORDER_COLUMNS = (
    "order", "strategy", "instrument", "side", "type", "price", "quantity", "filled", "average", "fees",
    "status", "reason",
)  # fmt: skip
_TEXT_COLUMNS = {"order", "strategy", "instrument", "side", "type", "status", "reason"}


@click.command(cls=rich_click.RichCommand)
@run_argument
@click.option("--rebuild", "from_journal", is_flag=True, help="From the journal, also while the ledger runs.")
@runs_dir_option
@json_option
def positions(run: str, from_journal: bool, runs_dir: str | None, as_json: bool) -> None:
    """Positions, PnL and fees of RUN (a name, a directory or "last").

    While the run's ledger is alive, what it wrote last; else rebuilt from the journal alone, with the counts
    of orders and fills behind it and of anything impossible.

    \b
    tapewire positions last
    tapewire positions last --rebuild --json
    """
    from ..runtime.market.rebuild import written_positions
    from ..runtime.rundir import find_run, runs_base

    found = find_run(run, runs_base(runs_dir))
    manifest = found.manifest()
    if _ledger_is_alive(manifest) and not from_journal:
        rows, _ = written_positions(found.path)
        if as_json:
            print_json({"run": found.name, "source": "ledger", "positions": rows})
            return
        click.echo(f"run {found.name} ({manifest.status()}), as its ledger wrote last")
        _print_positions(rows, _stream_names(manifest))
        return
    warn_missing_streams(found.path)
    summary = ledger_summary(found.path)
    if as_json:
        print_json({"run": found.name, "source": "journal", **summary})
        return
    click.echo(f"run {found.name} ({manifest.status()}), rebuilt from its journal")
    _print_summary(summary, _stream_names(manifest))


@click.command(cls=rich_click.RichCommand)
@run_argument
@click.option("--open", "only_open", is_flag=True, help="Only orders that are still working.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    metavar="N",
    help="The newest N of the finished and of the working ones; 0: all.",
)
@runs_dir_option
@json_option
def orders(run: str, only_open: bool, limit: int, runs_dir: str | None, as_json: bool) -> None:
    """Orders of RUN and how they ended, from its journal: finished ones first, then the working ones.

    \b
    tapewire orders last --open
    tapewire orders last --limit 0 --json
    """
    from ..runtime.market.rebuild import rebuild
    from ..runtime.rundir import find_run, runs_base

    found = find_run(run, runs_base(runs_dir))
    warn_missing_streams(found.path)
    ledger = rebuild(found.path, keep_done=0 if only_open else limit or None)
    working = list(ledger.tracker.orders.values())
    shown = [*ledger.tracker.done, *islice(working, max(0, len(working) - limit) if limit else 0, None)]
    finished = _finished(ledger)
    if as_json:
        print_json(
            {
                "run": found.name,
                "working": len(working),
                "finished": finished,
                "orders": [order.as_dict() for order in shown],
            }
        )
        return
    names = _stream_names(found.manifest())
    click.echo(f"run {found.name}: {finished} finished and {len(working)} working orders")
    if shown:
        _print_table(_ORDER_COLUMNS, [_order_row(order, names) for order in shown])
    hidden = len(working) + (0 if only_open else finished) - len(shown)
    if hidden:
        click.echo(f"{hidden} more; --limit 0 shows all")


def ledger_summary(run_dir: str | Path) -> dict[str, Any]:
    """Positions, counts and the impossible of a run, rebuilt from its journal; decimals as text."""
    from ..runtime.market.rebuild import rebuild

    return rebuild(run_dir).snapshot()


def print_ledger_summary(run_dir: str | Path) -> None:
    """Print what a run traded: orders, fills, refusals, PnL and fees per instrument, and the impossible."""
    from ..runtime.manifest import Manifest

    _print_summary(ledger_summary(run_dir), _stream_names(Manifest.load(run_dir)))


def _print_summary(summary: Mapping[str, Any], names: Mapping[int, str]) -> None:
    rows = summary["positions"]
    if rows:
        _print_positions(rows, names)
        click.echo()
        _print_table(_COUNT_COLUMNS, [_count_row(row, names) for row in rows])
    else:
        click.echo("no orders")
    if summary["reasons"]:
        click.echo(f"refused or rejected: {_counts_text(summary['reasons'])}")
    impossible = {kind: count for kind, count in summary["impossible"].items() if count}
    click.echo(f"impossible frames: {_counts_text(impossible) if impossible else 'none'}")
    for example in summary["impossible_examples"][:3]:
        stream = names.get(example["stream_id"], str(example["stream_id"]))
        order = _order_name(example["order_id"])
        click.echo(f"  {example['kind']}: stream {stream}, frame {example['seq']}, order {order}")


def _print_positions(rows: Sequence[Mapping[str, Any]], names: Mapping[int, str]) -> None:
    if not rows:
        click.echo("no positions")
        return
    _print_table(
        _POSITION_COLUMNS,
        [
            (
                names.get(row["strategy_stream"], str(row["strategy_stream"])),
                row["symbol"],
                row["quantity"],
                row["average_price"],
                row["mark_price"],
                row["realised"],
                row["unrealised"],
                row["fees"],
                row["net"],
                row["fills"],
            )
            for row in rows
        ],
    )


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print_table(columns, rows, right=[column for column in columns if column not in _TEXT_COLUMNS])


def _count_row(row: Mapping[str, Any], names: Mapping[int, str]) -> tuple[object, ...]:
    counts = row["counts"]
    return (
        names.get(row["strategy_stream"], str(row["strategy_stream"])),
        row["symbol"],
        counts["orders"],
        counts["fills"],
        counts["bought"],
        counts["sold"],
        counts["rejected"] + counts["requests_rejected"],
        counts["refused"] + counts["requests_refused"],
        counts["replaced"],
        counts["cancelled"],
        counts["expired"],
    )


def _order_row(order: Order, names: Mapping[int, str]) -> tuple[object, ...]:
    shown = order.as_dict()
    return (
        _order_name(order.order_id),
        names.get(order.strategy_stream, str(order.strategy_stream)),
        shown["symbol"],
        shown["side"],
        " ".join(filter(None, (shown["type"], shown["tif"]))),
        shown["price"],
        shown["quantity"],
        shown["filled"],
        shown["average_fill_price"] or "",
        shown["fees"],
        shown["status"],
        shown["reason"],
    )


def _order_name(order_id: int) -> str:
    return f"{order_id >> 48}:{order_id & 0xFFFF_FFFF_FFFF}"


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in counts.items())


def _finished(ledger: Ledger) -> int:
    known = sum(tally.orders + tally.refused for tally in ledger.tallies.values())
    return known - len(ledger.tracker.orders)


def _stream_names(manifest: Manifest) -> dict[int, str]:
    return {stream.id: stream.name for stream in manifest.streams}


def _ledger_is_alive(manifest: Manifest) -> bool:
    alive = set(manifest.alive_processes())
    return any(name in alive for name, process in manifest.processes.items() if process.role == "ledger")
