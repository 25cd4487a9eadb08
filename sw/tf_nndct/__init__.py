# SPDX-License-Identifier: Apache-2.0
"""The guide's optimizer for TensorFlow 2: Keras models with fewer channels.

Needs the extra ``opendpu[tensorflow]``; what is shared with PyTorch's is :mod:`opendpu.pruning`.
"""

from opendpu_arch.extras import needs

with needs("tf_nndct", "tensorflow"):
    import tensorflow  # noqa: F401

from tf_nndct.runner import IterativePruningRunner

__all__ = ["IterativePruningRunner"]
