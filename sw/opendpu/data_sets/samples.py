# SPDX-License-Identifier: Apache-2.0
"""Data sets: arrays of a file with labels, or a folder of images with a folder for each class."""

import dataclasses
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from opendpu.calibration import Preprocessing
from opendpu.calibration.images import Folder
from opendpu.data_sets.label_table import find_table, read_table
from opendpu.ir import Array, FloatGraph, QuantizedGraph
from opendpu.runtime import feeds
from opendpu_arch.errors import TensorError

NO_CLASS = (".", "__MACOSX")
"""How folders begin that tools have made, and that are no class."""


class DataSet:
    """Samples with labels, in memory.

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
        self._arrays, self.labels = dict(arrays), labels

    def __len__(self) -> int:
        """Return how many samples there are."""
        return len(self.labels)

    def part(self, start: int, stop: int) -> tuple[dict[str, Array], Array]:
        """Return the inputs and labels of some samples."""
        return self.inputs(range(start, stop)), self.labels[start:stop]

    def inputs(self, places: Sequence[int] | Array) -> dict[str, Array]:
        """Return the inputs of some samples."""
        return {name: array[np.asarray(places)] for name, array in self._arrays.items()}

    def identity(self) -> Iterator[bytes]:
        """Yield what other samples have otherwise, and then the labels."""
        for name, array in sorted(self._arrays.items()):
            yield name.encode()
            yield np.ascontiguousarray(array).tobytes()
        yield np.ascontiguousarray(self.labels).tobytes()


class ImageSet(DataSet):
    """Images with labels, read whenever they are asked for: a million need no memory.

    Parameters
    ----------
    folder
        The images, and what is done to them.
    graph
        The network.
    labels
        What is right, in the order of the images.
    """

    def __init__(self, folder: Folder, graph: FloatGraph | QuantizedGraph, labels: Array) -> None:
        if len(folder) != len(labels) or not len(folder):
            raise TensorError(f"there are {len(folder)} images, and labels of {len(labels)}")
        self._folder, self._graph, self.labels = folder, graph, labels

    def inputs(self, places: Sequence[int] | Array) -> dict[str, Array]:
        """Return some images; TensorError for a file that is none."""
        folder, name = self._folder, self._folder.input
        images = [
            _arranged(self._graph, name, folder.sample(folder.files[int(place)]))
            for place in places
        ]
        return {name: np.concatenate(images)}

    def identity(self) -> Iterator[bytes]:
        """Yield names, sizes and times of the files, what is done to images, and the labels."""
        yield repr(self._folder.preprocessing).encode()
        for file in self._folder.files:
            stat = file.stat()
            yield f"{file} {stat.st_size} {stat.st_mtime_ns}".encode()
        yield np.ascontiguousarray(self.labels).tobytes()


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
        An ``.npz`` file with inputs by name, and labels; a folder with a folder of images for each
        class, in the order of their names; or a folder of images with a ``.csv`` table of files and
        classes.
    graph
        The network.
    label
        Name of the array with labels, if there are others beside the inputs.
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
    names = [node.name for node in graph if node.kind == "data"]
    chosen = _label_of(arrays, names, label, graph)
    if chosen is None:
        shown = ", ".join(f"{name!r} {list(array.shape)}" for name, array in arrays.items())
        raise TensorError(
            f"{place} has no array {label!r}, which says what is right; it has {shown}"
        )
    labels = arrays.pop(chosen)
    if len(names) == 1 and names[0] not in arrays:
        fitting = [name for name in arrays if _fits(graph, names[0], arrays[name])]
        only = fitting if len(fitting) == 1 else list(arrays)
        arrays = {names[0]: arrays[only[0]]} if len(only) == 1 else arrays
    missing = sorted(set(names) - set(arrays))
    if missing:
        raise TensorError(f"{place} has no array for input {missing[0]!r}")
    return DataSet({n: _arranged(graph, n, arrays[n][:limit]) for n in names}, labels[:limit])


def _label_of(
    arrays: Mapping[str, Array], inputs: Sequence[str], label: str,
    graph: FloatGraph | QuantizedGraph,
) -> str | None:  # fmt: skip
    """Return the name of the labels: the one that they have, or the array that is no input."""
    if label in arrays:
        return label
    rest = set(arrays) - set(inputs)
    if len(rest) == 2 and len(inputs) == 1 and len(arrays) == 2:
        rest = {name for name in rest if not _fits(graph, inputs[0], arrays[name])}
    return rest.pop() if len(rest) == 1 and len(arrays) > 1 else None


def _folders(
    place: pathlib.Path, graph: FloatGraph | QuantizedGraph,
    preprocessing: Preprocessing | None, limit: int | None,
) -> DataSet:  # fmt: skip
    folders = sorted(
        one for one in place.iterdir() if one.is_dir() and not one.name.startswith(NO_CLASS)
    )
    table = find_table(place)
    if not folders and table is not None:
        return _listed(place, table, graph, preprocessing, limit)
    if not folders:
        raise TensorError(
            f"{place} has no folders, but must have one for each class, or a .csv table of files "
            "and classes"
        )
    each = None if limit is None else -(-limit // len(folders))
    classes = [Folder.of(folder, graph, preprocessing, limit=each) for folder in folders]
    files = [file for one in classes for file in one.files]
    labels = [number for number, one in enumerate(classes) for _ in one.files]
    chosen = dataclasses.replace(classes[0], path=place, files=tuple(files[:limit]))
    return ImageSet(chosen, graph, np.array(labels)[:limit])


def _listed(
    place: pathlib.Path, table: pathlib.Path, graph: FloatGraph | QuantizedGraph,
    preprocessing: Preprocessing | None, limit: int | None,
) -> DataSet:  # fmt: skip
    """Return the images that a table lists, spread evenly if not all are taken."""
    files, labels = read_table(table)
    count = len(files) if limit is None else min(limit, len(files))
    places = [index * len(files) // count for index in range(count)]
    folder = Folder.of(place, graph, preprocessing)
    chosen = dataclasses.replace(folder, files=tuple(files[one] for one in places))
    return ImageSet(chosen, graph, labels[places])


def _fits(graph: FloatGraph | QuantizedGraph, name: str, array: Array) -> bool:
    """Return whether an array has samples of an input."""
    try:
        _arranged(graph, name, array)
    except (TensorError, ValueError):  # other axes, or no numbers
        return False
    return True


def _arranged(graph: FloatGraph | QuantizedGraph, name: str, array: Array) -> Array:
    """Return samples as the network has them: channels last."""
    node, order = graph[name], graph.attrs.get("onnx_order", {}).get(name)
    own = tuple(node.shape[1:])
    if array.shape[1:] != own and order is not None and array.ndim == len(order):
        array = array.transpose(order)
    if array.shape[1:] != own:
        raise TensorError(
            f"input {name!r} has samples of shape {list(array.shape[1:])}, but must have "
            f"{list(own)}"
        )
    return np.ascontiguousarray(array, dtype=node.type.dtype)
