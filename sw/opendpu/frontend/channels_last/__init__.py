# SPDX-License-Identifier: Apache-2.0
"""Operators of frameworks whose feature maps are NHWC, as ONNX nodes: TensorFlow and TFLite.

Every function takes a :class:`~opendpu.frontend.building.Builder`, names of values and what the
operator says, and returns the name of the result. Feature maps stay NHWC in the graph: the
transposes around ONNX's spatial operators only rename axes there.
"""
