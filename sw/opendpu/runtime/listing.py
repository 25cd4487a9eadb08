# SPDX-License-Identifier: Apache-2.0
"""Listings of the machine code in a model or in a file of raw code."""

import os
import pathlib
from collections.abc import Iterator

from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch import asm, inputs, isa
from opendpu_arch.errors import DecodeError, ModelFormatError, TargetError
from opendpu_arch.target import Target
from xir import Graph, Subgraph

RAW_SUFFIXES = (".bin", ".mc")


def disassemble_file(path: str | os.PathLike[str], *, numbers: bool = True) -> str:
    """Return the listing of every DPU subgraph of an ``.xmodel``, or of a raw ``.bin`` or ``.mc``.

    Without ``numbers``, the text can be assembled again.

    Raises
    ------
    ModelFormatError
        The file cannot be read, or holds no machine code.
    DecodeError
        The code is not a program.
    """
    name = pathlib.Path(path)
    if name.suffix in RAW_SUFFIXES:
        try:
            code = inputs.read_bytes(name)
        except OSError as error:
            raise ModelFormatError(f"{name}: cannot be read: {error.strerror}") from error
        if not code:
            raise ModelFormatError(f"{name}: empty, so there is no machine code")
        return _block(name.name, "", code, numbers=numbers)
    blocks = []
    for subgraph in dpu_subgraphs(Graph.deserialize(path)):
        if not subgraph.has_attr("mc_code"):
            continue
        code = subgraph.get_attr("mc_code")
        blocks.append(_block(subgraph.get_name(), _target(subgraph), code, numbers=numbers))
    if not blocks:
        raise ModelFormatError(f"{name}: no DPU subgraph with machine code; is it compiled?")
    return "\n".join(blocks)


def _target(subgraph: Subgraph) -> str:
    if not subgraph.has_attr("dpu_fingerprint"):
        return ""
    fingerprint = subgraph.get_attr("dpu_fingerprint")
    try:
        return f"{Target.from_fingerprint(fingerprint).name} ({fingerprint:#x}), "
    except TargetError:
        return f"fingerprint {fingerprint:#x}, "


def _block(name: str, target: str, code: bytes, *, numbers: bool) -> str:
    try:
        program = isa.decode(code)
    except DecodeError as error:
        raise DecodeError(f"{name}: {error}") from None
    head = f"# {name}: {target}{len(program)} instructions, {len(code)} bytes"
    return "\n".join([head, *_lines(program, numbers), ""])


def _lines(program: list[isa.Instruction], numbers: bool) -> Iterator[str]:
    width = len(str(max(len(program) - 1, 0)))
    for number, instruction in enumerate(program):
        prefix = f"{number:>{width}}  " if numbers else ""
        yield prefix + asm.format_instruction(instruction)
