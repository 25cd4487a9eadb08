# SPDX-License-Identifier: Apache-2.0
"""What the DPU makes of a model's file, the way of ``opendpu inspect``."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence

from opendpu.frontend.formats import Format, format_of
from opendpu.frontend.input_values import Values, check_no_values
from opendpu.inspect import Inspection, inspect_compiled, inspect_graph
from opendpu.ir import from_xir
from opendpu.quantize.progress import silent
from opendpu.requantization import load_for_inspection
from opendpu.runtime.program import Program, dpu_subgraphs
from opendpu.targets import find_target
from opendpu_arch.errors import TargetError
from opendpu_arch.extensions import Extension
from opendpu_arch.target import Target
from xir import Graph


def inspect(
    path: str | os.PathLike[str],
    *,
    target: Target | str | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    input_values: Values | None = None,
    activation_substitution: str = "none",
    onnx_libraries: Sequence[str | pathlib.Path] = (),
    show: Callable[[str], None] = silent,
) -> Inspection:
    """Say which operator of a model goes where on a target, and why; no data is needed.

    ``path`` is a model of any framework or an ``.xmodel``: float, quantized or compiled; of a
    compiled one the target is known.

    Raises
    ------
    ModelFormatError
        The model cannot be read.
    TargetError
        A target is needed, or is not the one that the file was compiled for.
    UnsupportedError
        As for :func:`compile_onnx`.
    """
    chosen = find_target(target) if isinstance(target, str) else target
    requantized = False
    show("reading")
    if format_of(os.fspath(path)) is Format.XMODEL:
        check_no_values(path, input_values)
        loaded = Graph.deserialize(path)
        if dpu_subgraphs(loaded):
            return inspect_compiled(loaded, _compiled_for(loaded, chosen, path))
        graph = from_xir(loaded)
    else:
        scaled = chosen is not None and Extension.SCALED in chosen.extensions
        graph, requantized = load_for_inspection(
            path, input_shapes, onnx_libraries, input_values=input_values, any_scale=scaled
        )
    if chosen is None:
        raise TargetError(
            f"{os.fspath(path)} is not compiled: say for which target (--target)",
            code="XCOM_TARGET_REQUIRED",
        )
    show("inspecting")
    found = inspect_graph(graph, chosen, activation_substitution=activation_substitution)
    return dataclasses.replace(found, requantized=requantized)


def _compiled_for(graph: Graph, wanted: Target | None, path: str | os.PathLike[str]) -> Target:
    """Return the target of a compiled graph; TargetError if it is not the one that is wanted."""
    fingerprint = Program.from_subgraph(dpu_subgraphs(graph)[0]).fingerprint
    if not fingerprint:
        if wanted is None:
            raise TargetError(
                f"{os.fspath(path)} does not say its target: give it (--target)",
                code="XCOM_TARGET_REQUIRED",
            )
        return wanted
    found = Target.from_fingerprint(fingerprint)
    if wanted is not None and not wanted.runs(found):
        raise TargetError(
            f"{os.fspath(path)} was compiled for {found.name}, but {wanted.name} was asked for",
            code="VART_DEVICE_MISMATCH",
        )
    return found
