# SPDX-License-Identifier: Apache-2.0
"""Attribute values between Python and their protobuf messages."""

from typing import Any

from xir.attrs import KINDS, Attrs

FIELDS = {kind: f"{kind.replace('map_', 'map_string_2_')}_value" for kind in KINDS}
"""Field of an AttrValue message for each wire type."""

_KINDS = {field: kind for kind, field in FIELDS.items()}


def decode_value(message: Any) -> tuple[str, Any] | None:
    """Return wire type and value of an AttrValue message, or nothing if it is empty."""
    field = message.WhichOneof("value")
    if field is None:
        return None
    kind = _KINDS[field]
    value = getattr(message, field)
    if kind.startswith("map_"):
        item = kind.removeprefix("map_")
        if item == "bytes":
            return kind, {key: entry.value for key, entry in value.value.items()}
        if item.endswith("_vec"):
            return kind, {key: list(entry.value) for key, entry in value.value.items()}
        return kind, dict(value.value)
    if kind.endswith("_vec"):
        return kind, list(value.value)
    return kind, value.value if kind == "bytes" else value


def encode_value(kind: str, value: Any, message: Any) -> None:
    """Fill an AttrValue message with a value that :func:`xir.attrs.convert` made."""
    field = FIELDS[kind]
    if kind.startswith("map_"):
        target = getattr(message, field)
        target.SetInParent()
        item = kind.removeprefix("map_")
        for key, entry in value.items():
            if item == "bytes":
                target.value[key].value = entry
            elif item.endswith("_vec"):
                target.value[key].SetInParent()
                target.value[key].value.extend(entry)
            else:
                target.value[key] = entry
    elif kind.endswith("_vec"):
        getattr(message, field).SetInParent()
        getattr(message, field).value.extend(value)
    elif kind == "bytes":
        getattr(message, field).SetInParent()
        getattr(message, field).value = value
    else:
        setattr(message, field, value)


def decode_attrs(owner: Attrs, messages: Any) -> None:
    """Give ``owner`` the attributes of a protobuf map."""
    for key, message in messages.items():
        decoded = decode_value(message)
        if decoded is not None:
            owner._attrs[key] = decoded


def encode_attrs(owner: Attrs, messages: Any) -> None:
    """Write the attributes of ``owner`` but those with names in ``__`` to a protobuf map."""
    for key, (kind, value) in owner._attrs.items():
        if not key.startswith("__"):
            encode_value(kind, value, messages[key])
