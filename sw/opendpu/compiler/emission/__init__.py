# SPDX-License-Identifier: Apache-2.0
"""Parts of the emit pass: instructions of one layer kind a file."""
