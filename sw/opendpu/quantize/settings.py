# SPDX-License-Identifier: Apache-2.0
"""Settings of the quantizer as text, ``weights.bits=4``, as commands take them."""

import dataclasses
import typing
from collections.abc import Iterable

from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.tensor_spec import ROLES, Override, TensorSpec
from opendpu_arch.errors import UnsupportedError

Value = bool | int | float | str

_TYPES = typing.get_type_hints(TensorSpec)
FIELDS = tuple(field.name for field in dataclasses.fields(TensorSpec))
"""What can be set of a tensor."""


def with_settings(config: QuantizeConfig, settings: Iterable[str]) -> QuantizeConfig:
    """Return a configuration with some settings changed.

    Parameters
    ----------
    config
        What to change.
    settings
        ``ROLE.FIELD=VALUE`` each, or ``FIELD=VALUE`` for all roles.

    Raises
    ------
    UnsupportedError
        A setting that is none, or a value that is not allowed.
    """
    changes = _changes(settings)
    made = {
        role: dataclasses.replace(getattr(config, role), **fields)
        for role, fields in changes.items()
    }
    return dataclasses.replace(config, **made)


def override(config: QuantizeConfig, text: str) -> Override:
    """Return the rule that a text says: ``PATTERN:SETTING[,SETTING]``.

    ``PATTERN`` is that of names of layers, as of files, or of kinds with ``@`` in front:
    ``*/head/*:bits=16`` or ``@Conv:weights.bits=4``. What is not set is as for all layers.

    Raises
    ------
    UnsupportedError
        It has no colon, or a setting is none.
    """
    pattern, colon, settings = text.rpartition(":")
    if not colon or not pattern:
        raise UnsupportedError(
            f"layer setting {text!r} must be PATTERN:ROLE.FIELD=VALUE, for example "
            "'*/head/*:weights.bits=16'"
        )
    changes = _changes(settings.split(","))
    made = {
        role: dataclasses.replace(getattr(config, role), **fields)
        for role, fields in changes.items()
    }
    if pattern.startswith("@"):
        return Override(kinds=(pattern[1:],), **made)
    return Override(names=(pattern,), **made)


def _changes(settings: Iterable[str]) -> dict[str, dict[str, Value]]:
    """Return values by role and field."""
    found: dict[str, dict[str, Value]] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        role, dot, field = key.strip().rpartition(".")
        if not equals or (dot and role not in ROLES) or field not in FIELDS:
            raise UnsupportedError(
                f"setting {setting!r} must be [ROLE.]FIELD=VALUE; roles: {', '.join(ROLES)}; "
                f"fields: {', '.join(FIELDS)}"
            )
        for one in [role] if dot else ROLES:
            found.setdefault(one, {})[field] = _value(setting, field, text.strip())
    return found


def _value(setting: str, field: str, text: str) -> Value:
    kind = _TYPES[field]
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if kind is bool:
        if text.lower() not in words:
            raise UnsupportedError(f"setting {setting!r} must be true or false")
        return words[text.lower()]
    try:
        return typing.cast(Value, kind(text))
    except ValueError:
        raise UnsupportedError(
            f"setting {setting!r} must be {'a whole number' if kind is int else 'a number'}"
        ) from None
