# SPDX-License-Identifier: Apache-2.0
"""``VitisInspector``, see :mod:`vai_q_tensorflow2`."""

from vai_q_tensorflow2.inspector import VitisInspector

__all__ = ["VitisInspector"]
