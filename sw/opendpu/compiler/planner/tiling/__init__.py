# SPDX-License-Identifier: Apache-2.0
"""Candidates for the loops of a layer, a file a kind."""
