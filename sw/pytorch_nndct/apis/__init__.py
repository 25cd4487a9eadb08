# SPDX-License-Identifier: Apache-2.0
"""What users import: ``from pytorch_nndct.apis import torch_quantizer``."""

from pytorch_nndct.apis.quantizer import dump_xmodel, torch_quantizer
from pytorch_nndct.apis.vai_ops import load_vai_ops
from pytorch_nndct.inspector import Inspector
from pytorch_nndct.qat import QatProcessor

__all__ = ["Inspector", "QatProcessor", "dump_xmodel", "load_vai_ops", "torch_quantizer"]
