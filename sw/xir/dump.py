# SPDX-License-Identifier: Apache-2.0
"""What is in a file, as text and as files: the contents of ``xir``'s commands."""

import hashlib
import os
import pathlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from google.protobuf import text_format

from opendpu_arch import outputs
from opendpu_arch.errors import GraphError
from xir import serialize
from xir.graph import Graph
from xir.op import Tensor
from xir.subgraph import Subgraph

_SHOWN = 160
"""Bytes shown of either end of a long value."""


def attributes(graph: Graph) -> str:
    """Return the attributes of a graph, one a line; the entries of a map below it."""
    lines = []
    for name, value in sorted(graph.get_attrs().items()):
        if isinstance(value, dict):
            entries = "".join(f'\n\t"{key}" = {item}' for key, item in sorted(value.items()))
            value = f"{{{entries}\n}}"
        lines.append(f'"{name}" = {value}\n')
    return "".join(lines)


def tree(subgraph: Subgraph, depth: int = 0) -> str:
    """Return the tree of subgraphs, one a line, with device, fingerprint, inputs and outputs."""
    notes = []
    if subgraph.has_attr("device"):
        notes.append(f"device={subgraph.get_attr('device')}")
    if notes == ["device=DPU"]:
        attrs = subgraph.get_attrs()
        inputs = ",".join(map(_tensor, subgraph.get_sorted_input_tensors()))
        outputs = ",".join(map(_tensor, subgraph.get_sorted_output_tensors()))
        notes += [
            f"fingerprint={attrs.get('dpu_fingerprint', 0):#x}",
            f"DPU={attrs.get('dpu_name', '')}",
            f"I=[{inputs}]",
            f"O=[{outputs}]",
        ]
    line = "    " * depth + subgraph.get_name() + (f" [{','.join(notes)}]" if notes else "")
    below = (tree(child, depth + 1) for child in subgraph.toposort_child_subgraph())
    return "".join([f"{line}\n", *below])


def _tensor(tensor: Tensor) -> str:
    dims = ",".join(map(str, tensor.dims))
    fixpos = f", fixpos={tensor.get_attr('fix_point')}" if tensor.has_attr("fix_point") else ""
    count = tensor.get_element_num()
    return f"xir_tensor{{{tensor.name}:({dims}){fixpos} # of elements= {count}}}"


_REGISTERS = (
    "reg_id_to_context_type", "reg_id_to_context_type_v2", "reg_id_to_hw_segment",
    "reg_id_to_parameter_value", "reg_id_to_size",
)  # fmt: skip
"""Attributes of a subgraph for the DPU that say what the registers of its job are for."""


def registers(subgraph: Subgraph, depth: int = 0) -> str:
    """Return what the registers of each subgraph for the DPU are for, of constants size and MD5."""
    lines = []
    if subgraph.has_attr("device") and subgraph.get_attr("device") == "DPU":
        margin = "    " * (depth + 1)
        lines.append("    " * depth + subgraph.get_name())
        for name in _REGISTERS:
            lines.append(f"{margin}{name}:")
            found = subgraph.get_attr(name) if subgraph.has_attr(name) else {}
            if isinstance(found, dict):
                lines += [f"{margin}{key} => {_register(found[key])}" for key in sorted(found)]
        lines += ["", ""]
    below = (registers(child, depth + 1) for child in subgraph.toposort_child_subgraph())
    return "".join(["\n".join(lines), *below])


def _register(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes md5sum= {_md5(value)}"
    return str(value)


def text(path: str | os.PathLike[str], folder: pathlib.Path | None = None) -> str:
    """Return a file's protobuf message as text, of byte values only size, MD5 and both ends.

    With a ``folder``, each byte value is written there whole, to ``<MD5>.bin``.

    Raises
    ------
    ModelFormatError
        The file is no ``.xmodel``.
    """
    message = serialize.read_message(path)
    token = secrets.token_hex(8)  # nothing in the file can be mistaken for it
    values: list[bytes] = []

    def take(value: bytes) -> bytes:
        values.append(value)
        return f"{token}:{len(values) - 1}".encode()

    _replace_bytes(message, take)
    if folder is not None:
        for value in values:
            outputs.write(folder / f"{_md5(value)}.bin", value)
    printed = text_format.MessageToString(message, as_utf8=True)
    return re.sub(f'"{token}:([0-9]+)"', lambda match: _summary(values[int(match[1])]), printed)


def _replace_bytes(message: Any, replacement: Callable[[bytes], bytes]) -> None:
    """Replace every byte value in a message, at any depth."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_BYTES:
            if field.is_repeated:
                value[:] = [replacement(item) for item in value]
            else:
                setattr(message, field.name, replacement(value))
        elif field.message_type is not None:
            for part in _parts(field, value):
                _replace_bytes(part, replacement)


def _parts(field: Any, value: Any) -> Iterable[Any]:
    """Return the messages in the value of a field: one, several, or those of a map."""
    if field.message_type.GetOptions().map_entry:
        in_map = field.message_type.fields_by_name["value"].message_type
        return value.values() if in_map is not None else ()
    return value if field.is_repeated else (value,)


def _md5(value: bytes) -> str:
    return hashlib.md5(value, usedforsecurity=False).hexdigest()


def _summary(value: bytes) -> str:
    head, tail = value[:_SHOWN], value[-_SHOWN:]
    return f"bytes = {len(value)} md5sum = {_md5(value)}\nhead: {_hex(head)}tail: {_hex(tail)}"


def _hex(value: bytes) -> str:
    rows = (
        f"\n{start:08x}: {value[start : start + 16].hex(' ', -2)}"
        for start in range(0, len(value), 16)
    )
    return "".join([*rows, "\n"])


def code(graph: Graph, folder: str | os.PathLike[str]) -> list[pathlib.Path]:
    """Write machine code, assembly and parameters of every subgraph; return the files.

    They are ``<subgraph>.mc``, ``<subgraph>.ac`` and ``<register>.bin``, where several subgraphs
    have parameters ``<subgraph>.<register>.bin``. What a file system takes for a path in a name
    becomes ``_``.

    Raises
    ------
    GraphError
        There is no machine code, or two subgraphs would be written to one file.
    OutputError
        The folder or a file cannot be written.
    """
    subgraphs = list(_below(graph.get_root_subgraph()))
    several = sum(bool(_parameters(subgraph)) for subgraph in subgraphs) > 1
    contents: dict[str, bytes] = {}
    for subgraph in subgraphs:
        name = subgraph.get_name()
        files = {}
        if subgraph.has_attr("mc_code"):
            files[f"{name}.mc"] = subgraph.get_attr("mc_code")
        if subgraph.has_attr("ac_code"):
            lines = subgraph.get_attr("ac_code")
            files[f"{name}.ac"] = "".join(f"{line}\n" for line in lines).encode()
        for register, value in _parameters(subgraph).items():
            files[f"{name}.{register}.bin" if several else f"{register}.bin"] = value
        for file, content in files.items():
            plain = re.sub(r"[/\\\0]", "_", file)
            if plain in contents:
                raise GraphError(f"subgraph {name!r}: another one was written to {plain} already")
            contents[plain] = content
    if not contents:
        raise GraphError(f"graph {graph.get_name()!r} has no machine code; is it compiled?")
    outputs.check_folder(folder)
    target = pathlib.Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for file, content in contents.items():
        outputs.write(target / file, content)
    return [target / file for file in contents]


def _below(subgraph: Subgraph) -> Iterator[Subgraph]:
    yield subgraph
    for child in subgraph.get_children():
        yield from _below(child)


def _parameters(subgraph: Subgraph) -> dict[str, bytes]:
    """Return the constant segments of a subgraph that are not empty, by register."""
    name = "reg_id_to_parameter_value"
    found = subgraph.get_attr(name) if subgraph.has_attr(name) else {}
    return {register: value for register, value in found.items() if value}
