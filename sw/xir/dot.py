# SPDX-License-Identifier: Apache-2.0
"""Graphs as pictures, through Graphviz."""

import os
import shutil
import subprocess
from collections.abc import Sequence

from opendpu_arch import outputs
from opendpu_arch.errors import ToolError
from xir.op import Op


def render(ops: Sequence[Op], name: str) -> str:
    """Return the ops and the tensors between them in the DOT language."""
    lines = [f"digraph {_quote(name)} {{", "  node [shape=box];"]
    inside = set(ops)
    for op in ops:
        tensor = op.get_output_tensor()
        label = f"{op.get_type()}\\n{op.get_name()}\\n{tensor.dtype} {tensor.dims}"
        lines.append(f"  {_quote(op.get_name())} [label={_quote(label)}];")
        lines += [
            f"  {_quote(producer.get_name())} -> {_quote(op.get_name())} [label={_quote(arg)}];"
            for arg, producers in op.get_input_ops().items()
            for producer in producers
            if producer in inside
        ]
    return "\n".join([*lines, "}", ""])


def _quote(text: str) -> str:
    escaped = text.replace('"', '\\"')
    return f'"{escaped}"'


def save(ops: Sequence[Op], name: str, path: str | os.PathLike[str]) -> None:
    """Write the picture's DOT text to ``path``."""
    outputs.write(path, render(ops, name))


def draw(ops: Sequence[Op], name: str, path: str | os.PathLike[str], file_format: str) -> None:
    """Draw the picture with Graphviz; ToolError if its ``dot`` is missing or fails."""
    program = shutil.which("dot")
    if program is None:
        raise ToolError("the program 'dot' is missing; install the package graphviz")
    outputs.check(path)
    result = subprocess.run(
        [program, f"-T{file_format}"],
        input=render(ops, name).encode(),
        capture_output=True,
        check=False,
    )
    if result.returncode:
        reason = result.stderr.decode(errors="replace").strip()
        raise ToolError(f"dot cannot draw {path!r}: {reason}")
    outputs.write(path, result.stdout)
