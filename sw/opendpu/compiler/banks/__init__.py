# SPDX-License-Identifier: Apache-2.0
"""Image banks: which words rows have there, and which rows an instruction reaches."""

from opendpu.compiler.banks.region import BankAccess, Region

__all__ = ["BankAccess", "Region"]
