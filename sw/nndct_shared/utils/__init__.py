# SPDX-License-Identifier: Apache-2.0
"""What scripts import beside AMD's quantizer: its switches, and its way to print messages."""

from nndct_shared.utils import option_util
from nndct_shared.utils.logging import NndctDebugLogger, NndctScreenLogger
from nndct_shared.utils.msg_code import QError, QNote, QWarning
from nndct_shared.utils.option_util import NndctOption, set_option_value
from nndct_shared.utils.pattern_matcher import PatternType

__all__ = [
    "NndctDebugLogger", "NndctOption", "NndctScreenLogger", "PatternType", "QError", "QNote",
    "QWarning", "option_util", "set_option_value",
]  # fmt: skip
