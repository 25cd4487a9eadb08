# SPDX-License-Identifier: Apache-2.0
"""``python -m vai_q_tensorflow``."""

from opendpu.cli.entries import vai_q_tensorflow

vai_q_tensorflow()
