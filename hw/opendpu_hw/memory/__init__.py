# SPDX-License-Identifier: Apache-2.0
"""On-chip banks and who may use their ports."""
