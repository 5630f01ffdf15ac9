"""Every field of a nested config as an option of the command line, typed and explained.

A config that is given is turned into a dataclass of the same nesting, from which tyro makes the
options ``--model.attention.energy.diagonal`` and so on; what comes back is put into the config.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from typing import Annotated, Any, Literal, NamedTuple, Union

STATE = "_state"
"""Suffix of the field that switches an optional config on and off."""

ON, OFF = "on", "none"


class _Field(NamedTuple):
    """A field of a config: its kind without None, its value, and the class of a config there."""

    name: str
    hint: Any
    value: Any
    help: str
    nested: type | None
    optional: bool


def options_of(config: Any, *, without: frozenset[str] = frozenset()) -> type:
    """A dataclass whose defaults are the config's values.

    Args:
        config: a frozen dataclass, nested at will.
        without: names of fields that are left out, at any depth.
    """
    return _options(config, without)


def apply(config: Any, options: Any) -> Any:
    """The config with the values of an instance of `options_of`.

    Raises:
        ValueError: a value that the config refuses, or a field of an optional config that is off.
    """
    changed: dict[str, Any] = {}
    for field in _fields(config):
        if not hasattr(options, field.name):
            continue
        value = getattr(options, field.name)
        if field.nested is not None:
            on = getattr(options, field.name + STATE) == ON if field.optional else True
            base = field.nested() if field.value is None else field.value
            nested = apply(base, value)
            if not on and nested != base:
                raise ValueError(
                    f"{field.name}: got options of it, such as {nested}, where it is {OFF}, "
                    f"expected none; say {field.name} {ON}, or leave them out."
                )
            value = nested if on else None
        elif field.optional and value == OFF:
            value = None
        changed[field.name] = value
    return dataclasses.replace(config, **changed)


def _options(config: Any, without: frozenset[str]) -> type:
    import tyro

    made: list[tuple[str, Any, Any]] = []
    for field in _fields(config):
        if field.name in without:
            continue
        if field.nested is None:
            note, hint, value = tyro.conf.arg(help=field.help), field.hint, field.value
            # One word for what is not there, as for configs: tyro's own would be "None".
            if field.optional:
                hint = Literal["none"] | hint
                value = OFF if value is None else value
            made.append((field.name, Annotated[hint, note], value))
            continue
        if field.optional:
            state = OFF if field.value is None else ON
            note = tyro.conf.arg(name=field.name, help=field.help)
            kind = Annotated[Literal["on", "none"], note]
            made.append((field.name + STATE, kind, state))
        base = field.nested() if field.value is None else field.value
        nested = _options(base, without)
        made.append((field.name, Annotated[nested, tyro.conf.arg(help="")], nested()))
    return dataclasses.make_dataclass(
        type(config).__name__,
        [(name, hint, dataclasses.field(default=value)) for name, hint, value in made],
        frozen=True,
        namespace={"__doc__": ""},
    )


def _fields(config: Any) -> list[_Field]:
    """The fields that a command line can give."""
    hints, texts = typing.get_type_hints(type(config)), _texts(type(config))
    fields = []
    for field in dataclasses.fields(config):
        hint, value = hints[field.name], getattr(config, field.name)
        optional, rest = _optional(hint)
        nested = type(value) if dataclasses.is_dataclass(value) else _config_class(rest)
        if nested is None and not _plain(rest):
            continue
        text = texts.get(field.name, "")
        if optional:
            text = re.sub(r"\bNone\b", OFF, text)
        fields.append(_Field(field.name, rest, value, text, nested, optional))
    return fields


def _optional(hint: Any) -> tuple[bool, Any]:
    """Whether None is among the values, and the hint without it."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        if len(kinds) < len(typing.get_args(hint)):
            return True, kinds[0] if len(kinds) == 1 else Union[tuple(kinds)]  # noqa: UP007 - built
    return False, hint


def _config_class(hint: Any) -> type | None:
    """The class of a config that is None now and that can be made without arguments."""
    if not (isinstance(hint, type) and dataclasses.is_dataclass(hint)):
        return None
    needed = dataclasses.MISSING
    free = all(
        field.default is not needed or field.default_factory is not needed
        for field in dataclasses.fields(hint)
    )
    return hint if free else None


def _plain(hint: Any) -> bool:
    """Whether a command line can give it: numbers, names, one of several names."""
    return hint in (int, float, bool, str) or typing.get_origin(hint) is Literal


def _texts(cls: type) -> dict[str, str]:
    """What the docstring says of each attribute."""
    import docstring_parser

    parsed = docstring_parser.parse(cls.__doc__ or "", docstring_parser.DocstringStyle.GOOGLE)
    return {
        param.arg_name: " ".join((param.description or "").replace("``", "").split())
        for param in parsed.params
    }
