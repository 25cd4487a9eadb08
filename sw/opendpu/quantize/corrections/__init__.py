# SPDX-License-Identifier: Apache-2.0
"""What makes good what rounding did: biases, and scales judged by the results."""
