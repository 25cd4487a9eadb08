# SPDX-License-Identifier: Apache-2.0
"""The guide's optimizer for TensorFlow 1: graphs in a session with fewer channels.

Needs the extra ``opendpu[tensorflow]``, whose ``tf.compat.v1`` has the sessions. What is cut
together, and how wide it becomes, is found as ``tf_nndct`` does it for Keras.
"""

from opendpu_arch.extras import needs

with needs("tf1_nndct", "tensorflow"):
    import tensorflow  # noqa: F401

from tf1_nndct.runner import IterativePruningRunner

__all__ = ["IterativePruningRunner"]
