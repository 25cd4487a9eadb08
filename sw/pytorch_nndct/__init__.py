# SPDX-License-Identifier: Apache-2.0
"""AMD's Vitis AI quantizer for PyTorch, its interface over OpenDPU's engine.

Importing it registers the operators of exported TorchScript models, and takes AMD's switches
(``--nndct_equalization=False``) out of the command line, so that a script's parser does not see
them.
"""

import sys

from nndct_shared.utils.option_util import take_options
from opendpu_arch.extras import needs

with needs("pytorch_nndct", "torch"):
    import onnxscript  # noqa: F401
    import torch  # noqa: F401

from pytorch_nndct import apis, bfp, nn, quantization, utils
from pytorch_nndct.apis import Inspector, dump_xmodel, torch_quantizer
from pytorch_nndct.export import torch_script
from pytorch_nndct.pruning import (
    InputSpec,
    IterativePruningRunner,
    OFAPruner,
    OneStepPruningRunner,
    Pruner,
    SparsePruner,
    get_pruning_runner,
)
from pytorch_nndct.qat import QatProcessor

sys.argv[1:] = take_options(sys.argv[1:])

__version__ = "3.5.0"
"""The version of AMD's package whose interface this is."""

__all__ = [
    "InputSpec", "Inspector", "IterativePruningRunner", "OFAPruner", "OneStepPruningRunner",
    "Pruner", "QatProcessor", "SparsePruner", "apis", "bfp", "dump_xmodel", "get_pruning_runner",
    "nn", "quantization", "torch_quantizer", "torch_script", "utils",
]  # fmt: skip
