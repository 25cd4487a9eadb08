# SPDX-License-Identifier: Apache-2.0
"""Tools that are started with ``python -m vai_q_onnx.tools.NAME``."""
