# SPDX-License-Identifier: Apache-2.0
"""What ``--calib`` leads to."""

import os
import pathlib
import zipfile
from collections.abc import Iterable, Mapping

from opendpu.calibration.images import SUFFIXES, Folder
from opendpu.calibration.preprocessing import Preprocessing
from opendpu.ir import Array, Graph
from opendpu.quantize.spool import Stored, npz_arrays
from opendpu.runtime import feeds
from opendpu_arch import inputs
from opendpu_arch.errors import TensorError, UnsupportedError

_IMAGE_OPTIONS = (
    "--mean, --scale, --resize, --crop, --layout and --channels are for a folder of images"
)

Data = Mapping[str, Stored] | Iterable[Mapping[str, Array]]


def check_calibration(
    path: str | os.PathLike[str] | None, preprocessing: Preprocessing | None = None
) -> None:
    """Check, before long work, that calibration data, if any, is of a kind that we know.

    Raises
    ------
    TensorError
        There is nothing at ``path``.
    UnsupportedError
        Preprocessing is for images, but this is no folder.
    """
    if path is None:
        if preprocessing not in (None, Preprocessing()):
            raise UnsupportedError(f"{_IMAGE_OPTIONS}, but there is none (--calib)")
        return
    place = pathlib.Path(path)
    if not place.exists():
        raise TensorError(f"{place}: there is no such calibration data")
    if not _has_images(place) and preprocessing not in (None, Preprocessing()):
        raise UnsupportedError(f"{_IMAGE_OPTIONS}, but {place} is a file")


def read_calibration(
    path: str | os.PathLike[str],
    graph: Graph,
    preprocessing: Preprocessing | None = None,
    *,
    limit: int | None = None,
) -> Data:
    """Return the samples of an ``.npz`` or ``.npy`` file, of a folder of images, or of one image.

    ``limit`` is how many are taken at most. A single array is the only input, whatever its name.

    Raises
    ------
    TensorError
        It cannot be read, or does not fit the graph's inputs.
    UnsupportedError
        Preprocessing that does not fit.
    """
    check_calibration(path, preprocessing)
    if _has_images(pathlib.Path(path)):
        return Folder.of(path, graph, preprocessing, limit=limit)
    arrays = _arrays(path)
    names = [node.name for node in graph if node.kind == "data"]
    if feeds.ONLY_INPUT in arrays and len(names) != 1:
        raise TensorError(
            f"{os.fspath(path)} holds one array, but graph {graph.name!r} has {len(names)} "
            f"inputs: {', '.join(names)}"
        )
    if len(arrays) == len(names) == 1:
        arrays = {names[0]: next(iter(arrays.values()))}
    return {name: array if limit is None else array[:limit] for name, array in arrays.items()}


def _arrays(path: str | os.PathLike[str]) -> Mapping[str, Stored]:
    """Return the arrays of a file; those of an ``.npz`` file stay there until they are used."""
    try:
        inputs.refuse_device(path)
        return npz_arrays(path)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        pass
    try:
        return feeds.read(path)  # an .npy file, or one with a message of its own
    except TensorError:
        if pathlib.Path(path).suffix.lower() in (".npz", ".npy", ""):
            raise
        raise TensorError(
            f"{os.fspath(path)} is no calibration data, which is an .npz or .npy file, a folder of "
            f"images, or an image ({', '.join(sorted(SUFFIXES))})"
        ) from None


def _has_images(path: pathlib.Path) -> bool:
    """Return whether a path is a folder or an image."""
    return path.is_dir() or path.suffix.lower() in SUFFIXES
