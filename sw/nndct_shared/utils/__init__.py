# SPDX-License-Identifier: Apache-2.0
"""``option_util``: switches of AMD's quantizer."""

from nndct_shared.utils import option_util

__all__ = ["option_util"]
