# SPDX-License-Identifier: Apache-2.0
"""The interface of AMD Quark, of which there is its quantizer for ONNX here, see :mod:`.onnx`."""

__version__ = "0.13"
"""The version of AMD's package whose interface this is."""
