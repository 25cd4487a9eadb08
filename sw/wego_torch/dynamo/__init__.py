# SPDX-License-Identifier: Apache-2.0
"""The backend ``opendpu`` of ``torch.compile``."""

from wego_torch.dynamo.backend import opendpu

__all__ = ["opendpu"]
