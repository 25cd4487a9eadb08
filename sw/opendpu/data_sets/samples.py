# SPDX-License-Identifier: Apache-2.0
"""Data sets: arrays of a file with labels, or a folder of images with a folder for each class."""

import os
import pathlib
from collections.abc import Mapping

import numpy as np

from opendpu.calibration import Preprocessing, read_calibration
from opendpu.ir import Array, FloatGraph, QuantizedGraph
from opendpu.runtime import feeds
from opendpu_arch.errors import TensorError


class DataSet:
    """Samples with labels.

    Parameters
    ----------
    arrays
        Inputs by name, samples along the first axis.
    labels
        What is right, likewise.
    """

    def __init__(self, arrays: Mapping[str, Array], labels: Array) -> None:
        counts = {len(array) for array in (*arrays.values(), labels)}
        if len(counts) != 1 or not counts - {0}:
            raise TensorError(f"inputs and labels of the data set have {sorted(counts)} samples")
        self.arrays, self.labels = dict(arrays), labels

    def __len__(self) -> int:
        """Return how many samples there are."""
        return len(self.labels)

    def part(self, start: int, stop: int) -> tuple[dict[str, Array], Array]:
        """Return the inputs and labels of some samples."""
        return {n: a[start:stop] for n, a in self.arrays.items()}, self.labels[start:stop]


def read_data(
    path: str | os.PathLike[str],
    graph: FloatGraph | QuantizedGraph,
    label: str,
    preprocessing: Preprocessing | None = None,
    limit: int | None = None,
) -> DataSet:
    """Return a data set.

    Parameters
    ----------
    path
        An ``.npz`` file with inputs by name, and labels; or a folder with a folder of images for
        each class, in order.
    graph
        The network.
    label
        Name of the array with labels.
    preprocessing
        What is done to images.
    limit
        How many samples are taken at most.

    Raises
    ------
    TensorError
        It cannot be read, or does not fit the network.
    """
    place = pathlib.Path(path)
    if place.is_dir():
        return _folders(place, graph, preprocessing, limit)
    arrays = feeds.read(place)
    if label not in arrays:
        raise TensorError(f"{place} has no array {label!r}, which says what is right")
    labels = arrays.pop(label)
    names = [node.name for node in graph if node.kind == "data"]
    if len(names) == 1 and len(arrays) == 1:
        arrays = {names[0]: next(iter(arrays.values()))}
    missing = sorted(set(names) - set(arrays))
    if missing:
        raise TensorError(f"{place} has no array for input {missing[0]!r}")
    return DataSet({n: _arranged(graph, n, arrays[n][:limit]) for n in names}, labels[:limit])


def _folders(
    place: pathlib.Path, graph: FloatGraph | QuantizedGraph,
    preprocessing: Preprocessing | None, limit: int | None,
) -> DataSet:  # fmt: skip
    folders = sorted(one for one in place.iterdir() if one.is_dir())
    if not folders:
        raise TensorError(f"{place} has no folders, but must have one for each class")
    (name,) = [node.name for node in graph if node.kind == "data"]
    each = None if limit is None else -(-limit // len(folders))
    arrays, labels = [], []
    for number, folder in enumerate(folders):
        data = read_calibration(folder, graph, preprocessing, limit=each)
        batches = [data] if isinstance(data, Mapping) else list(data)
        for batch in batches:
            arrays.append(_arranged(graph, name, np.asarray(batch[name])))
            labels += [number] * len(arrays[-1])
    whole = np.concatenate(arrays)
    return DataSet({name: whole[:limit]}, np.array(labels)[:limit])


def _arranged(graph: FloatGraph | QuantizedGraph, name: str, array: Array) -> Array:
    """Return samples as the network has them: channels last."""
    node, order = graph[name], graph.attrs.get("onnx_order", {}).get(name)
    own = tuple(node.shape[1:])
    if array.shape[1:] != own and order is not None:
        array = array.transpose(order)
    if array.shape[1:] != own:
        raise TensorError(
            f"input {name!r} has samples of shape {list(array.shape[1:])}, but must have "
            f"{list(own)}"
        )
    return np.ascontiguousarray(array, dtype=node.type.dtype)
