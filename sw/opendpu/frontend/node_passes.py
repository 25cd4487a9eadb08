# SPDX-License-Identifier: Apache-2.0
"""Passes over the nodes of an ONNX model whose types are known, in the order they are listed.

Each finds what exporters write as several nodes, and puts the operators in their place that the
conversion behind it knows. Tests compare every one with onnxruntime.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence

import onnx

from opendpu.frontend import repeated_pixels
from opendpu.frontend.analysis import Analysis
from opendpu.frontend.attention import with_attention
from opendpu.frontend.duplicates import without_duplicates
from opendpu.frontend.dynamic_quantization import in_float
from opendpu.frontend.einsum import contracted
from opendpu.frontend.feature_norms import gathered
from opendpu.frontend.global_norms import globally_normalized
from opendpu.frontend.guards import unguarded
from opendpu.frontend.identities import without_identities
from opendpu.frontend.last_channels import resized_channels_first
from opendpu.frontend.means import with_means
from opendpu.frontend.model_file import reads
from opendpu.frontend.moments import with_central_moments
from opendpu.frontend.needless_pairs import rounded_once
from opendpu.frontend.normalizations import normalized
from opendpu.frontend.patterns import recognized
from opendpu.frontend.plain_norms import without_guards
from opendpu.frontend.repetitions import unrepeated
from opendpu.frontend.scatters import as_concatenations
from opendpu.frontend.separable import separated
from opendpu.frontend.single_axis_norms import over_one_axis
from opendpu.frontend.softmaxes import with_softmaxes
from opendpu.frontend.space_to_batch import dilated
from opendpu.frontend.stacks import unstacked
from opendpu.frontend.unfolds import convolved
from opendpu.frontend.window_axes import over_two_axes
from opendpu.ir import Array

Nodes = Sequence[onnx.NodeProto]


@dataclasses.dataclass
class Known:
    """What passes know of a model, and tell of what they add.

    Parameters
    ----------
    analysis
        Types and constants of all values.
    outputs
        Of the model.
    dynamic
        Operators that quantized while they ran, and no longer do.
    """

    analysis: Analysis
    outputs: Sequence[str]
    dynamic: int = 0

    @property
    def constants(self) -> dict[str, Array]:
        """Values that are known, by name."""
        return self.analysis.constants

    @property
    def opset(self) -> int:
        """Version of ONNX's own operator set."""
        return self.analysis.opset

    def uses(self, nodes: Nodes) -> Counter[str]:
        """Return how often each tensor is read, by nodes or as an output."""
        found = Counter(name for node in nodes for name in reads(node))
        found.update(self.outputs)
        return found

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a computed tensor of float32; none where that is not known."""
        return self.analysis.shape_of_floats(name)

    def add_floats(self, name: str, shape: tuple[int, ...]) -> None:
        """Take in a new tensor of float32."""
        self.analysis.add_floats(name, shape)


def _in_float(nodes: Nodes, k: Known) -> Nodes:
    made, count = in_float(nodes, k.constants, k.uses(nodes), k.shape_of, k.add_floats)
    k.dynamic += count
    return made


PASSES: tuple[Callable[[Nodes, Known], Nodes], ...] = (
    lambda n, k: without_identities(n, k.constants, k.outputs, k.shape_of),
    lambda n, k: dilated(n, k.constants, k.uses(n), k.outputs, k.shape_of, k.add_floats),
    _in_float,
    lambda n, k: over_two_axes(n, k.constants, k.shape_of, k.add_floats),
    lambda n, k: contracted(n, k.constants, k.shape_of, k.add_floats),
    lambda n, k: convolved(n, k.constants, k.uses(n), k.shape_of, k.add_floats),
    lambda n, k: separated(n, k.constants, k.outputs, k.shape_of, k.add_floats, k.analysis.dialect),
    lambda n, k: with_attention(n, k.constants, k.shape_of, k.add_floats),
    lambda n, k: unguarded(n, k.constants, k.uses(n)),
    lambda n, k: as_concatenations(n, k.constants, k.shape_of, k.add_floats),
    lambda n, k: without_duplicates(n, k.constants, k.outputs),
    lambda n, k: without_guards(n, k.constants, k.uses(n), k.shape_of, k.outputs),
    lambda n, k: with_softmaxes(n, k.constants, k.uses(n), k.shape_of, k.add_floats, k.opset),
    lambda n, k: unstacked(n, k.constants, k.uses(n), k.shape_of),
    lambda n, k: gathered(n, k.constants, k.uses(n), k.shape_of),
    lambda n, k: globally_normalized(n, k.constants, k.uses(n), k.shape_of),
    lambda n, k: recognized(n, k.constants, k.uses(n), k.analysis.alike),
    lambda n, k: rounded_once(n, k.constants, k.uses(n)),
    lambda n, k: repeated_pixels.resized(n, k.constants, k.uses(n), k.shape_of, k.add_floats),
    lambda n, k: resized_channels_first(n, k.constants, k.shape_of, k.add_floats),
    lambda n, k: with_means(n, k.constants, k.uses(n), k.shape_of, k.opset),
    lambda n, k: with_central_moments(n, k.constants, k.uses(n), k.shape_of, k.add_floats),
    lambda n, k: normalized(n, k.constants, k.uses(n), k.shape_of, k.add_floats),
    lambda n, k: over_one_axis(n, k.constants, k.shape_of, k.add_floats),
    lambda n, k: unrepeated(n, k.constants, k.uses(n), k.shape_of),
)


def run_passes(nodes: Nodes, known: Known) -> Nodes:
    """Return the nodes of a model after all passes; ``known`` learns what they add."""
    for run in PASSES:
        nodes = run(nodes, known)
    return nodes
