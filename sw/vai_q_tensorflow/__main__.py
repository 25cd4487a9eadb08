# SPDX-License-Identifier: Apache-2.0
"""``python -m vai_q_tensorflow``."""

from vai_q_tensorflow.main import main

main()
