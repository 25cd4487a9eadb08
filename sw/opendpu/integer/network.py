# SPDX-License-Identifier: Apache-2.0
"""A quantized network as the DPU computes it, on many samples."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from opendpu.compiler.fold import fold
from opendpu.compiler.legalize import legalize
from opendpu.ir import Array, FixedGraph, Node, QuantizedGraph
from opendpu.ops import SOURCES
from opendpu.ops.batching import mixes_samples
from opendpu.ops.formats import integers_of
from opendpu.ops.session import Session
from opendpu_arch.errors import TensorError
from opendpu_arch.numerics import quantize


class IntegerNetwork:
    """Computes the integers of a quantized graph, bit for bit those of its compiled program.

    What the DPU has no op for is computed in float, as the CPU beside it does.

    Parameters
    ----------
    graph
        The quantized graph, or what legalization has made of one.
    keep
        Tensors to return: names of ``fix`` ops, or of float ops that stay such; the graph's
        outputs if not given. :attr:`tensors` are those that there are.
    threads
        How many threads compute an op; 0 for as many as there are cores.
    scaled
        Whether scales and zero points may be any, as the extension ``scaled`` computes with them.

    Raises
    ------
    TensorError
        There is no such tensor: its ``fix`` has become part of another op, or never was.
    UnsupportedError
        Nothing computes an op, or a ``fix`` is none of the DPU's.
    """

    def __init__(
        self,
        graph: QuantizedGraph | FixedGraph,
        *,
        keep: Sequence[str] | None = None,
        threads: int = 0,
        scaled: bool = False,
    ) -> None:
        fixed = graph if isinstance(graph, FixedGraph) else legalize(fold(graph), scaled=scaled)
        self.graph = fixed
        self.tensors = {
            node.tensor_name: node.name
            for node in fixed
            if node.value is None and node.kind not in SOURCES
        }
        """Nodes of the fixed-point graph by what they are called in the quantized one."""
        if keep is None:
            keep = [fixed[name].tensor_name for name in fixed.outputs]
        for name in keep:
            if name not in self.tensors:
                raise TensorError(
                    f"graph {fixed.name!r} has no tensor {name!r} in integers; it has "
                    f"{', '.join(self.tensors)}"
                )
        self._nodes = {name: self.tensors[name] for name in keep}
        self._heads = {n.tensor_name: n for n in fixed if n.kind in SOURCES}
        kept = list(self._nodes.values())
        self._batched = not mixes_samples(fixed, kept)
        self._session = Session(fixed, keep=kept, batched=self._batched, threads=threads)

    def fix_point(self, tensor: str) -> int | None:
        """Return the fractional bits of a tensor; none of one that is no integers."""
        made = self.graph[self.tensors[tensor]].type
        return self.graph[self.tensors[tensor]].fix_point if made.is_fixed else None

    def run(self, samples: Mapping[str, Array]) -> dict[str, Array]:
        """Return tensors of some samples, which count along the first axis of every array.

        Floats are rounded to the input's fix point and saturate; integers are taken as they are.
        Results are int8 where the DPU has int8.

        Raises
        ------
        TensorError
            An input is missing, unknown or of a wrong shape.
        """
        given = self._given(samples)
        if self._batched:
            return self._named(self._session.run(given))
        rows = {name: self.graph[name].shape[0] for name in given}
        count = min((len(array) // rows[name] for name, array in given.items()), default=1)
        parts = []
        for index in range(count):
            one = {n: a[index * rows[n] : (index + 1) * rows[n]] for n, a in given.items()}
            parts.append(self._named(self._session.run(one)))
        return {name: np.concatenate([part[name] for part in parts]) for name in self._nodes}

    def evaluate(self, batches: Iterable[Mapping[str, Array]]) -> Iterator[dict[str, Array]]:
        """Yield the tensors of batch after batch: see :meth:`run`."""
        for batch in batches:
            yield self.run(batch)

    def _named(self, results: Mapping[str, Array]) -> dict[str, Array]:
        return {name: results[node] for name, node in self._nodes.items()}

    def _given(self, samples: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs of the session, in the types of its nodes."""
        if unknown := sorted(set(samples) - set(self._heads)):
            raise TensorError(
                f"{unknown[0]!r} is no input of graph {self.graph.name!r}; its inputs are: "
                f"{', '.join(self._heads)}"
            )
        given = {}
        for name, node in self._heads.items():
            if node.name not in self._session.inputs:
                continue
            if name not in samples:
                raise TensorError(f"input {name!r} of graph {self.graph.name!r} is missing")
            array = np.asarray(samples[name])
            if array.shape[1:] != node.shape[1:] or len(array) % node.shape[0]:
                want = ["N", *node.shape[1:]]
                raise TensorError(
                    f"input {name!r} has shape {list(array.shape)}, but must be "
                    f"[{', '.join(map(str, want))}]"
                )
            given[node.name] = _as_type(node, array)
        return given


def _as_type(node: Node, array: Array) -> Array:
    """Return an array in the element type of an input; floats as its ``fix`` makes them."""
    if not node.type.is_fixed or array.dtype.kind in "iu":
        return array.astype(node.type.dtype, copy=False)
    found = node.quantization
    if not found.is_power_of_two:
        return integers_of(array, found).astype(node.type.dtype)
    fixed = quantize(
        array, found.fix_point, bit_width=found.bits, signed=found.signed,
        round_mode=found.rounding,
    )  # fmt: skip
    return fixed.astype(node.type.dtype)
