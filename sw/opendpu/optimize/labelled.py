# SPDX-License-Identifier: Apache-2.0
"""Samples with labels out of an ``.npz`` file, split into three parts."""

import dataclasses
import pathlib
import zipfile

import numpy as np
import torch

from opendpu_arch.errors import ModelFormatError, TensorError

Part = tuple[torch.Tensor, torch.Tensor]
PARTS = ("train", "choice", "test")
CHOICE, TEST = 0.15, 0.25
"""Parts of the samples, where a file is not split."""


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Samples with labels.

    Parameters
    ----------
    train
        What networks are trained and calibrated with.
    choice
        What analyses evaluate on.
    test
        What accuracy is told of; nothing else looks at it.
    """

    train: Part
    choice: Part
    test: Part

    @property
    def is_classes(self) -> bool:
        """Whether labels are numbers of classes."""
        return not self.train[1].is_floating_point()


def read_labelled(path: pathlib.Path, seed: int = 0) -> Labelled:
    """Read samples ``x``, as the network takes them, and labels ``y``.

    A file with ``x_train``, ``y_train``, ``x_choice``, ``y_choice``, ``x_test`` and ``y_test`` is
    split already; of another 15 % are for choosing and 25 % for the test, drawn with ``seed``.
    Integer labels are classes, others what the network has to return.

    Raises
    ------
    ModelFormatError
        The file cannot be read.
    TensorError
        Arrays are missing or do not fit each other.
    """
    if not path.is_file() or not zipfile.is_zipfile(path):
        raise ModelFormatError(f"{path} is no .npz file")
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    if "x" in arrays and "y" in arrays:
        x, y = _part(path, arrays["x"], arrays["y"])
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        choice, test = (round(len(x) * part) for part in (CHOICE, TEST))
        if min(choice, test, len(x) - choice - test) < 1:
            raise TensorError(f"{path} has {len(x)} samples, too few to be split into three parts")
        cuts = torch.split(order, [len(x) - choice - test, choice, test])
        return Labelled(*((x[cut], y[cut]) for cut in cuts))
    wanted = [f"{axis}_{part}" for part in PARTS for axis in "xy"]
    missing = [name for name in wanted if name not in arrays]
    if missing:
        raise TensorError(
            f"{path} has {', '.join(sorted(arrays)) or 'nothing'}, but must have x and y, or "
            f"{', '.join(wanted)}"
        )
    return Labelled(*(_part(path, arrays[f"x_{name}"], arrays[f"y_{name}"]) for name in PARTS))


def _part(path: pathlib.Path, x: np.ndarray, y: np.ndarray) -> Part:
    if len(x) != len(y) or not len(x):
        raise TensorError(f"{path} has {len(x)} samples and {len(y)} labels")
    samples = torch.from_numpy(x.astype(np.float32))
    labels = y.astype(np.float32 if y.dtype.kind == "f" else np.int64)
    return samples, torch.from_numpy(labels)
