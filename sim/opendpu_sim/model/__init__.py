# SPDX-License-Identifier: Apache-2.0
"""The functional simulator: what every instruction means, one file an engine."""
