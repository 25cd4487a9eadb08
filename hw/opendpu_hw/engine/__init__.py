# SPDX-License-Identifier: Apache-2.0
"""One engine a file; none imports another."""
