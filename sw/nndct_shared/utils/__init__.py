# SPDX-License-Identifier: Apache-2.0
"""Switches of AMD's quantizer: ``option_util``, and ``NndctOption`` to read them."""

from nndct_shared.utils import option_util
from nndct_shared.utils.option_util import NndctOption

__all__ = ["NndctOption", "option_util"]
