# SPDX-License-Identifier: Apache-2.0
"""AMD's expander for PyTorch: channels filled up with zeros, over :mod:`opendpu.optimize`."""

from pytorch_nndct.expanding.expanding_lib import expand_and_export, load_expanded_model
from pytorch_nndct.expanding.spec import ExpandingSpec
from pytorch_nndct.expanding.structured import ExpandingRunner

__all__ = ["ExpandingRunner", "ExpandingSpec", "expand_and_export", "load_expanded_model"]
