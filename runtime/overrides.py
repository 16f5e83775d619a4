"""`--set key.path=value`: changes to a topology document before it is read."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from .errors import ConfigError
from .policies import choice_hint
from .validate import NumberText, require_table

_HINT = "write --set key.path=value, such as --set processes.md.interval_us=500"


def apply_overrides(raw: dict[str, Any], overrides: Sequence[str], *, where: str) -> list[str]:
    """Apply `key.path=value` texts to the document `raw`, in order; returns the key paths that were set.

    A value is read as TOML, and as plain text where it is none: `speed=max` needs no quotes. An
    instrument is named by its number from 1 or by its symbol. Another strategy does not get the parameters
    that the document has for its own. Raises `ConfigError` for a text without a key or "=", and for a
    process or instrument that the document does not have.
    """
    changes = []
    for override in overrides:
        path, separator, text = override.partition("=")
        parts = path.strip().split(".")
        if not separator or not all(parts):
            raise ConfigError(f"{override!r} is not key.path=value", where="--set", hint=_HINT)
        changes.append((parts, parse_value(text)))
    for parts, value in changes:
        if len(parts) == 3 and parts[0] == "processes" and parts[2] == "strategy":
            _forget_params(raw, parts[1], value)
    return [_set(raw, parts, value, where) for parts, value in changes]


def parse_value(text: str) -> Any:
    """`text` as a TOML value, or as a str where it is none."""
    try:
        document = tomllib.loads(f"value = {text}", parse_float=NumberText)
    except tomllib.TOMLDecodeError:
        return text.strip()
    # More than one key: the text held a line break and then something that looks like TOML.
    return document["value"] if len(document) == 1 else text.strip()


def overridden(key: str, keys: Sequence[str]) -> bool:
    """Whether an error at `key` is about a value that one of the overrides `keys` has set."""
    return bool(key) and any(
        key == other or key.startswith(f"{other}.") or other.startswith(f"{key}.") for other in keys
    )


def blamed(error: ConfigError, overrides: Sequence[str], *, where: str) -> ConfigError:
    """`error`, or the same about --set where it is the fault of one of `overrides` and not of the document
    `where`."""
    keys = [override.partition("=")[0].strip() for override in overrides]
    if error.where != where or not overridden(error.key, keys):
        return error
    return ConfigError(error.problem, where="--set", key=error.key, hint=error.hint)


def _forget_params(raw: dict[str, Any], process: str, strategy: object) -> None:
    processes = raw.get("processes")
    table = processes.get(process) if isinstance(processes, dict) else None
    if isinstance(table, dict) and table.get("strategy") != strategy:
        table.pop("params", None)


def _set(raw: dict[str, Any], parts: list[str], value: Any, where: str) -> str:
    if parts[0] == "instruments" and len(parts) > 1:
        number, table = _instrument(raw, parts[1])
        parts[1] = str(number)
        rest = parts[2:]
    else:
        table, rest = raw, parts
        if parts[0] == "processes" and len(parts) > 2:
            known = require_table(raw.get("processes", {}), where=where, path="processes")
            if parts[1] not in known and parts[1] != "master":
                raise ConfigError(
                    f"the topology has no process {parts[1]!r}",
                    where="--set",
                    key=".".join(parts),
                    hint=choice_hint(parts[1], list(known)),
                )
            if parts[1] == "master":
                known.setdefault("master", {"role": "master"})
    if not rest:
        raise ConfigError("name a key of it", where="--set", key=".".join(parts), hint=_HINT)
    for depth, part in enumerate(rest[:-1]):
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            done = len(parts) - len(rest) + depth + 1
            raise ConfigError(
                f"{'.'.join(parts[:done])} is a value, not a table", where="--set", key=".".join(parts)
            )
    table[rest[-1]] = value
    return ".".join(parts)


def _instrument(raw: dict[str, Any], name: str) -> tuple[int, dict[str, Any]]:
    tables = [table for table in raw.get("instruments", []) if isinstance(table, dict)]
    symbols = [str(table.get("symbol", "")) for table in tables]
    if name in symbols:
        number = symbols.index(name) + 1
    elif name.isdecimal() and 1 <= int(name) <= len(tables):
        number = int(name)
    else:
        raise ConfigError(
            f"the topology has no instrument {name!r}",
            where="--set",
            key=f"instruments.{name}",
            hint=choice_hint(name, symbols),
        )
    return number, tables[number - 1]
