# SPDX-License-Identifier: Apache-2.0
"""The name under which the guide's example of training imports ``QatProcessor``."""

from pytorch_nndct import QatProcessor

__all__ = ["QatProcessor"]
