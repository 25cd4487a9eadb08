# SPDX-License-Identifier: Apache-2.0
"""Where the cycles of a compiled model go: by layer, by engine, by reason."""

from opendpu.profile.losses import CATEGORIES, Account, account
from opendpu.profile.measure import COUNTER, Profile, profile
from opendpu.profile.program import ProgramView

__all__ = ["CATEGORIES", "COUNTER", "Account", "Profile", "ProgramView", "account", "profile"]
