# SPDX-License-Identifier: Apache-2.0
"""What the guide has under ``pytorch_nndct.utils``."""

from pytorch_nndct.utils import profiler, slim, summary
from pytorch_nndct.utils.custom_op import register_custom_op

__all__ = ["profiler", "register_custom_op", "slim", "summary"]
