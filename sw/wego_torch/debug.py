# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of every part of a compiled network, for those who look for lost accuracy."""

import io
import json
import pathlib
import re
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

import xir
from opendpu.export.golden import make_folder
from opendpu.ir import Array
from opendpu.runtime import GraphRunner
from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch import outputs

FOLDER = "wego_debug"
SAMPLES = 8
"""Calls of which something is written, for each network."""

_LOCK = threading.Lock()
_written: dict[str, int] = {}


def dump(graph: xir.Graph, given: Mapping[str, Array], device: str) -> None:
    """Write the tensors between parts for the first sample of a call; nothing after some calls.

    ``wego_debug/<network>_<call>/<part>.npz`` has the inputs and outputs of a part by tensor,
    ``differences.json`` how many numbers of each output of the DPU differ from those of device
    ``ref``, which knows the operators and not the program.

    Raises
    ------
    OutputError
        A file cannot be written.
    """
    with _LOCK:
        call = _written.get(graph.get_name(), 0)
        if call >= SAMPLES:
            return
        _written[graph.get_name()] = call + 1
    folder = make_folder(pathlib.Path(FOLDER, f"{_file(graph.get_name())}_{call}"))
    one = {name: array[:1] for name, array in given.items()}
    found, wanted = _tensors(graph, one, device), _tensors(graph, one, "ref")
    differences = {}
    for part in graph.get_root_subgraph().toposort_child_subgraph():
        names = [t.name for t in (*part.get_input_tensors(), *part.get_output_tensors())]
        written = io.BytesIO()
        arrays: dict[str, Any] = {name: found[name] for name in names if name in found}
        np.savez(written, **arrays)
        outputs.write(folder / f"{_file(part.get_name())}.npz", written.getvalue())
    for part in dpu_subgraphs(graph):
        for tensor in part.get_output_tensors():
            if tensor.name in found:
                count = int((found[tensor.name] != wanted[tensor.name]).sum())
                differences[tensor.name] = {"differing": count, "of": found[tensor.name].size}
    outputs.write(folder / "differences.json", json.dumps(differences, indent=2) + "\n")


def _tensors(graph: xir.Graph, given: Mapping[str, Array], device: str) -> dict[str, Array]:
    """Return the tensors between parts."""
    with GraphRunner(graph, device=device) as runner:
        return runner.tensors(given)


def _file(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name)
