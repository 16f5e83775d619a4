"""Where the code of a strategy is: `FILE.py:Class`, `package.module:Class` or `native:NAME`."""

from __future__ import annotations

import ast
import os
from importlib import util
from pathlib import Path

from .errors import ConfigError
from .policies import choice_hint

_HINT = '"path/file.py:ClassName", "package.module:ClassName" or "native:alternating"'
_BUNDLED = "examples"


def resolve_strategy(spec: str, base: Path, *, where: str, key: str, check: bool = True) -> str:
    """`spec` with a file made absolute; native and module forms are returned as they are.

    A relative file is looked for beside the topology (`base`), in the working directory, and, where it
    starts with `examples/`, among the examples that come with tapewire. With `check` the file must exist,
    be Python and define that class; it is parsed, not run. Raises `ConfigError`.
    """
    if spec.startswith("native:"):
        return spec
    file, separator, name = spec.rpartition(":")
    if not separator or not file or not name.isidentifier():
        raise ConfigError(f"not a strategy: {spec!r}", where=where, key=key, hint=_HINT)
    if not file.endswith(".py"):
        if not all(part.isidentifier() for part in file.split(".")):
            raise ConfigError(f"not a strategy: {spec!r}", where=where, key=key, hint=_HINT)
        return spec
    path = find_strategy_file(file, base)
    if path is None:
        if not check:
            return spec
        raise ConfigError(
            f"no such file: {file}",
            where=where,
            key=key,
            hint=f"looked in {base}, {Path.cwd()} and the examples",
        )
    if check:
        _check_class(path, name, where, key)
    return f"{os.path.abspath(path)}:{name}"


def find_strategy_file(file: str, base: Path) -> Path | None:
    """The file of a strategy, or None; see `resolve_strategy` for where it is looked for."""
    path = Path(file).expanduser()
    candidates = [base / path, Path.cwd() / path]
    if not path.is_absolute() and path.parts[0] == _BUNDLED:
        candidates += [place.joinpath(*path.parts[1:]) for place in example_dirs()]
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def example_dirs() -> list[Path]:
    """Where the examples that come with tapewire are."""
    spec = util.find_spec("tapewire.examples")
    return [Path(place) for place in (spec.submodule_search_locations or [])] if spec is not None else []


def _check_class(path: Path, name: str, where: str, key: str) -> None:
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except SyntaxError as error:
        raise ConfigError(
            f"{path}: line {error.lineno}: not valid Python: {error.msg}", where=where, key=key
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot read it: {error}", where=where, key=key) from None
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    # A name may also be imported or assigned: only the loader can tell, so any binding passes here.
    if name in classes or name in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}:
        return
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    if name not in imported:
        hint = choice_hint(name, classes) if classes else "it defines no class"
        raise ConfigError(f"{path} has no class {name!r}", where=where, key=key, hint=hint)
