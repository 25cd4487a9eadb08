# SPDX-License-Identifier: Apache-2.0
"""Where scripts look for AMD's switches, too."""

from nndct_shared.utils.option_util import NndctOption

__all__ = ["NndctOption"]
