# SPDX-License-Identifier: Apache-2.0
"""Parts of the tile pass: the ways to cut one layer kind a file."""
