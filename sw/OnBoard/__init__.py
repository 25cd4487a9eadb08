# SPDX-License-Identifier: Apache-2.0
"""OnBoard: what WeGO made of a model, and where its time goes, for TensorBoard.

>>> collector = SummaryCollector(log_dir="OnBoard_info", comment="resnet50")
>>> collector.add_platform_info()
>>> collector.add_graph(wego_module, input_to_model=image)
>>> collector.close()

``tensorboard --logdir OnBoard_info`` shows it. Models are PyTorch's or
TensorFlow's, compiled or not.
"""

from opendpu_arch.extras import needs

with needs("OnBoard", "tensorboard"):
    import tensorboard  # noqa: F401

from OnBoard.collector import SummaryCollector

__all__ = ["SummaryCollector"]
