# SPDX-License-Identifier: Apache-2.0
"""One part of a data set on one variant of a network: what workers, near or far, do."""

import dataclasses
import functools
import pathlib
import pickle
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from opendpu.data_sets.metrics import Counts, metric_of
from opendpu.ir import Array
from opendpu.ops.session import Session
from opendpu.runners import load
from opendpu.runtime import GraphRunner
from opendpu.runtime.batch import run_batch

FLOAT = "float"


@dataclasses.dataclass(frozen=True)
class Variant:
    """A network as it is evaluated; workers get it as bytes.

    Parameters
    ----------
    name
        In the report.
    content
        A float graph, pickled, or a compiled ``.xmodel``.
    digest
        Of the network. Of a pickle there is none: its bytes say which strings are one object, too.
    device
        What runs the latter; empty for a float graph.
    outputs
        Names of the outputs, in order.
    metric, function
        As of :func:`opendpu.data_sets.metrics.metric_of`.
    """

    name: str
    content: bytes
    digest: str
    device: str
    outputs: tuple[str, ...]
    metric: str
    function: str = ""


@dataclasses.dataclass(frozen=True)
class Task:
    """A part of a data set on a variant.

    Parameters
    ----------
    variant
        By number.
    start, stop
        The samples.
    """

    variant: int
    start: int
    stop: int


def count(variant: Variant, arrays: Mapping[str, Array], labels: Array) -> Counts:
    """Return the counts of some samples."""
    outputs = _network(_Key(variant)).run(arrays)
    return metric_of(variant.metric, variant.function).count(outputs, labels)


class _Key:
    """A variant that is found again by its network."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self._values = variant.digest, variant.device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other._values == self._values

    def __hash__(self) -> int:
        return hash(self._values)


class _Float:
    """A float graph in onnxruntime."""

    def __init__(self, variant: Variant) -> None:
        self._session = Session(pickle.loads(variant.content), threads=1)
        self._outputs = variant.outputs

    def run(self, arrays: Mapping[str, Array]) -> Sequence[Array]:
        import numpy as np

        count = len(next(iter(arrays.values())))
        each = [
            self._session.run({n: a[i : i + 1] for n, a in arrays.items()}) for i in range(count)
        ]
        return [np.concatenate([one[name] for one in each]) for name in self._outputs]


class _Compiled:
    """A compiled network on a device."""

    def __init__(self, variant: Variant) -> None:
        with tempfile.TemporaryDirectory(prefix="opendpu-") as folder:
            path = pathlib.Path(folder, "model.xmodel")
            path.write_bytes(variant.content)
            options: dict[str, Any] = {"threads": 1} if variant.device == "ref" else {}
            self._runner = GraphRunner(load(path), device=variant.device, workers=1, **options)
        self._outputs = variant.outputs

    def run(self, arrays: Mapping[str, Array]) -> Sequence[Array]:
        found, _ = run_batch(self._runner, arrays, floats=True)
        return [found[name] for name in self._outputs]


@functools.lru_cache(maxsize=4)
def _network(key: _Key) -> Any:
    return _Compiled(key.variant) if key.variant.device else _Float(key.variant)
