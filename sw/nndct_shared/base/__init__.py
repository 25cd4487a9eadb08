# SPDX-License-Identifier: Apache-2.0
"""Names that scripts of AMD's model zoo import beside the quantizer."""

from nndct_shared.base import key_names
from nndct_shared.base.key_names import GLOBAL_MAP, NNDCT_DEBUG_LVL, NNDCT_KEYS, NNDCT_OP

__all__ = ["GLOBAL_MAP", "NNDCT_DEBUG_LVL", "NNDCT_KEYS", "NNDCT_OP", "key_names"]
