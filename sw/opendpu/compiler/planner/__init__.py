# SPDX-License-Identifier: Apache-2.0
"""From a network to a plan: cascades, feature maps on chip, loops, places in DDR."""
