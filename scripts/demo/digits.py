# SPDX-License-Identifier: Apache-2.0
"""The handwritten digits of scikit-learn, split once and for all into train and test."""

import dataclasses

import numpy as np
import numpy.typing as npt

TEST_IMAGES = 360
_SPLIT_SEED = 20


@dataclasses.dataclass(frozen=True)
class Digits:
    """Images, float32 [n, 1, 8, 8] in 0..1, and labels, int64 [n]."""

    train_images: npt.NDArray[np.float32]
    train_labels: npt.NDArray[np.int64]
    test_images: npt.NDArray[np.float32]
    test_labels: npt.NDArray[np.int64]


def load_digits() -> Digits:
    """Return the 1797 images that scikit-learn carries, a fifth of them kept for the test."""
    from sklearn import datasets

    bunch = datasets.load_digits()
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(bunch.target))
    images = (bunch.images[order] / 16).astype(np.float32)[:, np.newaxis]
    labels = bunch.target[order].astype(np.int64)
    return Digits(
        train_images=images[TEST_IMAGES:],
        train_labels=labels[TEST_IMAGES:],
        test_images=images[:TEST_IMAGES],
        test_labels=labels[:TEST_IMAGES],
    )
