"""Topologies from TOML: found by name or path, overridden by `--set`, checked, made absolute."""

from __future__ import annotations

import copy
import os
import tomllib
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from typing import Any

import msgspec

from .config import BinanceFeedConfig, StrategyConfig, Topology
from .cpu import allowed_cpus
from .effective import pinned_cpus, resolve
from .errors import ConfigError
from .overrides import apply_overrides, overridden
from .policies import choice_hint
from .strategy_spec import resolve_strategy
from .topology_tables import read_tables
from .validate import NumberText, require_table


def bundled_topologies() -> dict[str, Path]:
    """The topologies that come with tapewire, by name."""
    spec = util.find_spec("tapewire.configs")
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    return {path.stem: path for place in places for path in sorted(Path(place).glob("*.toml"))}


def find_topology(topology: str) -> Path:
    """The file of a topology given as a path or as the name of a bundled one; raises `ConfigError`."""
    path = Path(topology)
    if path.suffix == ".toml" or os.sep in topology:
        if path.is_file():
            return path
        raise ConfigError(
            "no such topology file", where=topology, hint=f"bundled: {', '.join(bundled_topologies())}"
        )
    bundled = bundled_topologies()
    if topology in bundled:
        return bundled[topology]
    hint = choice_hint(topology, list(bundled))
    raise ConfigError(f"no topology {topology!r}", hint=f"{hint}; or give the path of a TOML file")


def load_topology(
    topology: str, overrides: Sequence[str] = (), *, input_path: str | None = None, check: bool = True
) -> Topology:
    """Read, override and check a topology.

    `topology` is a path or a bundled name, `overrides` are `key.path=value` texts as of `--set`,
    `input_path` replaces the market data process's `input`. With `check` also everything that depends on
    this host: CPUs, the input and strategy files, the live directory. Raises `ConfigError`, whose message
    names the file (or --set) and the key path.
    """
    path = find_topology(topology)
    where = display_path(path)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=NumberText)
    except OSError as error:
        raise ConfigError(f"cannot read it: {error.strerror}", where=where) from error
    except UnicodeDecodeError as error:
        raise ConfigError("not UTF-8 text", where=where) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}", where=where) from error
    return build_topology(
        raw, overrides, name=path.stem, path=path, where=where, input_path=input_path, check=check
    )


def build_topology(
    raw: dict[str, Any],
    overrides: Sequence[str] = (),
    *,
    name: str,
    path: Path,
    where: str,
    input_path: str | None = None,
    check: bool = True,
) -> Topology:
    """As `load_topology`, from a parsed document; `path` is where relative paths in it start."""
    raw = copy.deepcopy(raw)
    keys = apply_overrides(raw, overrides, where=where)
    input_key = "" if input_path is None else _set_input(raw, input_path, where)
    try:
        topology = read_tables(raw, name=name, where=where)
        topology = _resolve_paths(topology, path.absolute().parent, check, given=bool(input_key))
        resolve(topology, allowed_cpus())  # refuses policies that do not go together
        if check:
            check_host(topology)
    except ConfigError as error:
        if error.key and error.key == input_key:
            raise ConfigError(error.problem, where="--input") from None
        if error.where == where and overridden(error.key, keys):
            raise ConfigError(error.problem, where="--set", key=error.key, hint=error.hint) from None
        raise
    return topology


def check_host(topology: Topology) -> None:
    """Raise `ConfigError` unless this host has the CPUs and directories that the topology names."""
    where = topology.source
    allowed = allowed_cpus()
    for process in (*topology.processes.values(), topology.master):
        missing = sorted(set(pinned_cpus(process)) - allowed)
        if missing:
            key = f"processes.{process.name}.cpu"
            raise ConfigError(
                f"CPU {missing[0]} is not among those this process may use ({_cpu_list(allowed)})",
                where=where,
                key=key,
                hint=f'use --set {key}={min(allowed)} or --set {key}="any"',
            )
    live_dir = Path(topology.run.live_dir)
    if not live_dir.is_dir() or not os.access(live_dir, os.W_OK | os.X_OK):
        problem = "not a directory" if not live_dir.is_dir() else "not writable"
        raise ConfigError(
            f"{live_dir} is {problem}", where=where, key="run.live_dir", hint="it must be in shared memory"
        )


def display_path(path: Path) -> str:
    """A path as a person would type it: relative where it lies below the working directory."""
    absolute = path.absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else str(absolute)


def _set_input(raw: dict[str, Any], input_path: str, where: str) -> str:
    """Put `input_path` into the market data table; returns the key path it has there."""
    for name, table in require_table(raw.get("processes", {}), where=where, path="processes").items():
        if isinstance(table, dict) and table.get("role") == "market_data":
            if table.get("feed") != "binance":
                raise ConfigError(
                    f"the feed of {where} is {table.get('feed')!r}, which reads no file",
                    where="--input",
                    hint='use a topology with feed = "binance"',
                )
            table["input"] = input_path
            return f"processes.{name}.input"
    return ""


def _resolve_paths(topology: Topology, base: Path, check: bool, *, given: bool) -> Topology:
    """Paths made absolute, so that the effective configuration means the same from everywhere.

    `given` says that the input was named on the command line, and not in the document.
    """
    processes = dict(topology.processes)
    for name, process in topology.processes.items():
        where, key = topology.source, f"processes.{name}"
        if isinstance(process, BinanceFeedConfig):
            beside = Path.cwd() if given else base
            path = find_input(process.input, beside, where=where, key=f"{key}.input", check=check)
            processes[name] = msgspec.structs.replace(process, input=path)
        elif isinstance(process, StrategyConfig):
            spec = resolve_strategy(process.strategy, base, where=where, key=f"{key}.strategy", check=check)
            processes[name] = msgspec.structs.replace(process, strategy=spec)
    return msgspec.structs.replace(topology, processes=processes)


def find_input(text: str, base: Path, *, where: str, key: str, check: bool) -> str:
    """The absolute path of a recording: as given, or beside the topology; raises `ConfigError`."""
    if not text:
        if not check:
            return ""
        raise ConfigError("no recording given", where=where, key=key, hint="give it with --input FILE")
    candidates = [base / text, Path(text).absolute()]
    path = next((candidate for candidate in candidates if candidate.exists()), candidates[-1])
    if check:
        if not path.exists():
            raise ConfigError(f"no such file: {text}", where=where, key=key, hint="give it with --input FILE")
        if not path.is_file():
            raise ConfigError(f"not a file: {text}", where=where, key=key)
        if not os.access(path, os.R_OK):
            raise ConfigError(f"cannot read {text}: permission denied", where=where, key=key)
    return os.path.abspath(path)


def _cpu_list(cpus: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(cpus)))
