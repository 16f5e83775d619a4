"""From `path/file.py:ClassName` and a table of parameters to a strategy that can be started."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from .errors import ConfigError
from .policies import choice_hint
from .strategy import NoParams, Strategy
from .validate import convert_table

__all__ = ["load_params", "load_strategy", "load_strategy_class", "params_type"]


def load_strategy(
    spec: str, params: Mapping[str, Any], *, where: str = "", key: str = "processes.strategy"
) -> tuple[Strategy, msgspec.Struct]:
    """An object of the strategy `spec` names, not attached yet, and its validated parameters.

    `where` is the topology's file and `key` the process's key path in it, for messages. Raises `ConfigError`
    where the file is missing, fails while it is imported (naming the line), has no such class or one that
    is no Strategy, or where the parameters do not fit.
    """
    kind = load_strategy_class(spec, where=where, key=f"{key}.strategy")
    values = load_params(kind, params, where=where, key=f"{key}.params")
    try:
        return kind(), values
    except Exception as error:
        raise ConfigError(
            f"{kind.__name__}() fails: {_describe(error)}",
            where=where,
            key=f"{key}.strategy",
            hint="a strategy is made without arguments; use on_start for what needs the run",
        ) from error


def load_strategy_class(spec: str, *, where: str = "", key: str = "") -> type[Strategy]:
    """The class that `spec` names: `path/file.py:ClassName` or `package.module:ClassName`."""
    place, separator, name = spec.rpartition(":")
    if not separator or not place or not name.isidentifier():
        raise ConfigError(
            f"not a strategy: {spec!r}",
            where=where,
            key=key,
            hint='"path/file.py:ClassName" or "package.module:ClassName"',
        )
    try:
        module = _import_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except FileNotFoundError:
        raise ConfigError(f"no such file: {place}", where=where, key=key) from None
    except ModuleNotFoundError as error:
        if error.name is None or not (place == error.name or place.startswith(f"{error.name}.")):
            raise _import_failed(place, error, where, key) from error
        raise ConfigError(f"no module named {error.name}", where=where, key=key) from None
    except (Exception, SystemExit) as error:
        raise _import_failed(place, error, where, key) from error
    found = getattr(module, name, None)
    if found is None:
        names = [
            each
            for each, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, Strategy) and value is not Strategy
        ]
        hint = choice_hint(name, names) if names else "it has no subclass of tapewire.Strategy"
        raise ConfigError(f"{place} has no class {name!r}", where=where, key=key, hint=hint)
    if not (isinstance(found, type) and issubclass(found, Strategy)):
        raise ConfigError(
            f"{name} in {place} is not a Strategy",
            where=where,
            key=key,
            hint=f"write `class {name}(Strategy):`, with `from tapewire import Strategy`",
        )
    _check_event_names(found, place, where, key)
    return found


def _check_event_names(kind: type[Strategy], place: str, where: str, key: str) -> None:
    """A misspelt event method would never be called, and nobody would be told."""
    events = [name for name in vars(Strategy) if name.startswith("on_")]
    for name in dir(kind):
        if name.startswith("on_") and name not in events:
            near = difflib.get_close_matches(name, events, n=1, cutoff=0.8)
            if near:
                raise ConfigError(
                    f"{kind.__name__} in {place} has a method {name}, which is no event",
                    where=where,
                    key=key,
                    hint=f"did you mean {near[0]}? A method of your own needs another name",
                )


def params_type(kind: type[Strategy], *, where: str = "", key: str = "") -> type[msgspec.Struct]:
    """The struct of a strategy's parameters: its nested `Params`, or what `params` is annotated with."""
    declared: Any = kind.Params
    if declared is NoParams:
        try:
            declared = _annotated_params(kind)
        except NameError as error:
            raise ConfigError(
                f"{kind.__name__}: an annotation cannot be resolved: {error}",
                where=where,
                key=key,
                hint="define the class of the parameters at the top level of the module",
            ) from None
    if not (isinstance(declared, type) and issubclass(declared, msgspec.Struct)):
        raise ConfigError(
            f"{kind.__name__}: its parameters are not declared as a msgspec.Struct",
            where=where,
            key=key,
            hint="write `class Params(msgspec.Struct):` inside the strategy",
        )
    return declared


def load_params(
    kind: type[Strategy], params: Mapping[str, Any], *, where: str = "", key: str = ""
) -> msgspec.Struct:
    """The parameters of `kind` from a table, checked field by field; raises `ConfigError`."""
    struct = params_type(kind, where=where, key=key)
    arguments = convert_table(struct, params, where=where, path=key)
    try:
        return struct(**arguments)
    except (TypeError, ValueError) as error:  # what a __post_init__ raises
        raise ConfigError(str(error), where=where, key=key) from None


def _annotated_params(kind: type[Strategy]) -> Any:
    for base in kind.__mro__:
        if base is Strategy:
            break
        annotation = inspect.get_annotations(base).get("params")
        if isinstance(annotation, str):  # from __future__ import annotations
            names = {**vars(sys.modules[base.__module__]), **vars(base)}
            return eval(annotation, names)
        if annotation is not None:
            return annotation
    return NoParams


def _import_file(path: Path) -> ModuleType:
    path = path.absolute()
    if not path.is_file():
        raise FileNotFoundError(path)
    # Under a name of its own: a user's math.py or journal.py shadows nothing.
    name = f"tapewire_strategy_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)  # last, so that its helper modules are found and nothing is shadowed
    sys.modules[name] = module  # annotations are looked up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_failed(place: str, error: BaseException, where: str, key: str) -> ConfigError:
    line = None
    if isinstance(error, SyntaxError):
        line = error.lineno
    else:
        for entry in traceback.extract_tb(error.__traceback__):
            if entry.filename == str(Path(place).absolute()):
                line = entry.lineno
    at = f"{place}: line {line}" if line else place
    return ConfigError(f"{at}: {_describe(error)} while it was imported", where=where, key=key)


def _describe(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
