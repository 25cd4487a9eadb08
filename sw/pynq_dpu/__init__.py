# SPDX-License-Identifier: Apache-2.0
"""DPU-PYNQ's overlay, for programs of boards with PYNQ: a model and a runner, without a board.

>>> overlay = DpuOverlay("dpu.bit")
>>> overlay.load_model("dpu_resnet50.xmodel")
>>> dpu = overlay.runner
"""

from pynq_dpu import stand_in
from pynq_dpu.dpu import DpuOverlay

__all__ = ["DpuOverlay"]

stand_in.install()
