# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's models as float graphs: frozen graphs by themselves, SavedModel and Keras with
TensorFlow (the extra ``opendpu[tensorflow]``)."""

from opendpu.frontend.tensorflow.frozen import load_frozen

__all__ = ["load_frozen"]
