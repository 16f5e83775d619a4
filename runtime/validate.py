"""From a parsed TOML table to the fields of a msgspec struct, one key at a time.

msgspec checks a whole tree in one go, but names neither the process a key belongs to nor the nearest
known key. Here every field is converted on its own, so that an error can say exactly that.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from .errors import ConfigError, OrderError
from .policies import choice_hint
from .units import parse_decimal

DECIMAL = {"decimal": True}
"""`Meta(extra=DECIMAL)` marks a str field that holds a decimal number; TOML numbers are taken as written."""


class NumberText(float):
    """A TOML float that remembers how it was written, so that `tick = 0.01` is exactly 0.01."""

    text: str

    def __new__(cls, text: str) -> NumberText:
        """Keep `text` beside its value."""
        number = super().__new__(cls, text.replace("_", ""))
        number.text = text
        return number

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]
        """What a copy is made from."""
        return (self.text,)


def plain(value: Any) -> Any:
    """`value` with every `NumberText` in it turned into an ordinary float."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return float(value) if isinstance(value, NumberText) else value


def check_keys(
    table: Mapping[str, Any], known: Iterable[str], *, where: str, path: str, what: str = "key"
) -> None:
    """Raise `ConfigError` for the first key of `table` that is not known, naming the nearest known one."""
    names = tuple(known)
    for key in table:
        if key not in names:
            hint = choice_hint(key, names) if names else "it has none"
            raise ConfigError(f"unknown {what}", where=where, key=_join(path, key), hint=hint)


def require_table(value: Any, *, where: str, path: str) -> dict[str, Any]:
    """`value` if it is a table, else a `ConfigError`."""
    if not isinstance(value, dict):
        raise ConfigError(f"expected a table, got {_found(value)}", where=where, key=path)
    return value


def convert_table(
    cls: type[msgspec.Struct],
    table: Mapping[str, Any],
    *,
    where: str,
    path: str,
    skip: Iterable[str] = (),
    what: str = "key",
) -> dict[str, Any]:
    """Keyword arguments for `cls` from `table`, checked field by field.

    Fields named in `skip` are set by the caller and are unknown keys in the table, which a message calls
    `what`. Raises `ConfigError`
    for an unknown key, a wrong type, a value out of range and a missing required key.
    """
    hidden = set(skip)
    fields = {field.encode_name: field for field in msgspec.structs.fields(cls) if field.name not in hidden}
    check_keys(table, fields, where=where, path=path, what=what)
    arguments: dict[str, Any] = {}
    for key, field in fields.items():
        if key in table:
            arguments[field.name] = convert_value(table[key], field.type, where=where, key=_join(path, key))
        elif field.required:
            raise ConfigError("missing", where=where, key=_join(path, key), hint=_description(field.type))
    return arguments


def convert_value(value: Any, annotation: Any, *, where: str, key: str) -> Any:
    """`value` as `annotation` (a type, possibly with `msgspec.Meta`); raises `ConfigError`."""
    meta = _meta(annotation)
    if meta is not None and meta.extra == DECIMAL:
        return _decimal_text(value, meta, where, key)
    if get_origin(_bare(annotation)) is dict and isinstance(value, dict):
        return value  # whoever reads that table knows what is a decimal in it
    value = plain(value)
    try:
        return msgspec.convert(value, annotation)
    except msgspec.ValidationError as error:
        raise ConfigError(
            _problem(value, annotation, str(error)), where=where, key=key, hint=_hint(value, annotation)
        ) from None


def _decimal_text(value: Any, meta: msgspec.Meta, where: str, key: str) -> str:
    text = value.text if isinstance(value, NumberText) else value
    if isinstance(text, bool) or not isinstance(text, str | int):
        problem = f"expected a decimal number, got {_found(value)}"
        raise ConfigError(problem, where=where, key=key, hint=meta.description or "")
    try:
        parse_decimal(str(text), what="")
    except OrderError:
        problem = f"expected a decimal number, got {_found(value)}"
        raise ConfigError(problem, where=where, key=key, hint=meta.description or "") from None
    return str(text).strip().replace("_", "")


def _problem(value: Any, annotation: Any, message: str) -> str:
    bare = _bare(annotation)
    if get_origin(bare) is Literal:
        return f"expected {_type_text(bare)}, got {_found(value)}"
    reason = message.split(" - at ")[0].replace("`", "")
    if ", got " in reason or not reason.startswith("Expected"):
        return f"expected {_type_text(bare)}, got {_found(value)}"
    return f"{reason[0].lower()}{reason[1:]}, got {_found(value)}"


def _hint(value: Any, annotation: Any) -> str:
    bare = _bare(annotation)
    if get_origin(bare) is Literal and isinstance(value, str):
        return choice_hint(value, [str(choice) for choice in get_args(bare)])
    return _description(annotation)


def _description(annotation: Any) -> str:
    meta = _meta(annotation)
    return (meta.description or "") if meta is not None else ""


def _meta(annotation: Any) -> msgspec.Meta | None:
    if get_origin(annotation) is Annotated:
        for extra in get_args(annotation)[1:]:
            if isinstance(extra, msgspec.Meta):
                return extra
    return None


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _type_text(annotation: Any) -> str:
    annotation = _bare(annotation)
    origin = get_origin(annotation)
    if origin is Literal:
        return "one of " + ", ".join(f'"{choice}"' for choice in get_args(annotation))
    if origin in (Union, types.UnionType):
        return " or ".join(_type_text(part) for part in get_args(annotation))
    if origin is list:
        return f"a list of {_type_text(get_args(annotation)[0])}"
    if origin is dict or annotation is dict:
        return "a table"
    if annotation is float:
        return "a number"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _found(value: Any) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return f"a list {value!r}" if len(repr(value)) < 40 else "a list"
    if isinstance(value, bool):
        return f"bool {str(value).lower()}"
    if isinstance(value, str):
        return f'str "{value}"'
    if isinstance(value, NumberText):
        return f"float {value.text}"
    return f"{type(value).__name__} {value}"


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
