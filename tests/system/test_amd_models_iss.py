# SPDX-License-Identifier: Apache-2.0
"""Programs that AMD's compiler made, on the functional simulator, against recorded outputs."""

import pathlib

import numpy as np
import pytest

import xir
from opendpu.runtime.device import Job
from opendpu_arch.target import Target
from opendpu_sim.device import IssDevice

pytestmark = pytest.mark.system

FILES = ("dpu_mnist_classifier", "tf2_custom_op")
OPTIONS = {
    "fast": {},
    "checked": {"check": True},
    "shuffled": {"schedule_seed": 1},
    "shuffled and checked": {"schedule_seed": 2, "check": True},
}


class Subgraph:
    """One DPU subgraph: its program, its segments, its tensors in them."""

    def __init__(self, graph: xir.Graph, subgraph: xir.Subgraph) -> None:
        self.graph = graph
        self.target = Target.from_fingerprint(subgraph.get_attr("dpu_fingerprint"))
        self.code = bytes(subgraph.get_attr("mc_code"))
        self._sizes = subgraph.get_attr("reg_id_to_size")
        self._blobs = subgraph.get_attr("reg_id_to_parameter_value")

    def segments(self) -> dict[int, np.ndarray]:
        segments = {int(k[4:]): np.zeros(size, np.uint8) for k, size in self._sizes.items()}
        for name, blob in self._blobs.items():
            segments[int(name[4:])][: len(blob)] = np.frombuffer(blob, np.uint8)
        return segments

    def view(self, segments: dict[int, np.ndarray], name: str) -> np.ndarray:
        """Return a tensor in its segment; recorded outputs have the name beyond the download."""
        tensor = self.graph.get_tensor(name)
        if not tensor.has_attr("reg_id"):
            tensor = self.graph.get_tensor(f"{name}_download_0")
        memory = segments[tensor.get_attr("reg_id")].view(np.int8)
        return np.lib.stride_tricks.as_strided(
            memory[tensor.get_attr("ddr_addr") :], tensor.dims, tensor.get_attr("stride")
        )


def subgraphs(folder: pathlib.Path, name: str) -> list[Subgraph]:
    graph = xir.Graph.deserialize(folder / f"{name}.xmodel")
    children = graph.get_root_subgraph().toposort_child_subgraph()
    return [Subgraph(graph, c) for c in children if c.get_attr("device") == "DPU"]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("name", FILES)
def test_outputs_are_bit_exact(models: pathlib.Path, name: str, options: dict[str, object]) -> None:
    folder = models / "amd_compiled"
    golden = np.load(folder / f"{name}.golden.npz")
    compared = 0
    for number, subgraph in enumerate(subgraphs(folder, name)):
        device = IssDevice(subgraph.target, **options)
        keys = [k.split("/", 3) for k in golden.files if k.startswith(f"s{number}/")]
        for seed in sorted({key[1] for key in keys}):
            segments = subgraph.segments()
            for _, _, direction, tensor in (k for k in keys if k[1] == seed):
                if direction == "in":
                    subgraph.view(segments, tensor)[:] = golden[f"s{number}/{seed}/in/{tensor}"]
            device.run(Job(subgraph.code, segments))
            for _, _, direction, tensor in (k for k in keys if k[1] == seed):
                if direction == "out":
                    expected = golden[f"s{number}/{seed}/out/{tensor}"]
                    np.testing.assert_array_equal(subgraph.view(segments, tensor), expected)
                    compared += 1
    assert compared == 3 * len(subgraphs(folder, name))


def test_statistics_of_the_digit_classifier(models: pathlib.Path) -> None:
    subgraph = subgraphs(models / "amd_compiled", FILES[0])[0]
    statistics = IssDevice(subgraph.target).run(Job(subgraph.code, subgraph.segments()))
    assert (statistics.instructions, statistics.bytes_written) == (230, 10)
    assert statistics.bytes_read == 696146
