# SPDX-License-Identifier: Apache-2.0
"""``python3 -m vaitrace_py X.py ...``: ``vaitrace`` for a Python program."""
