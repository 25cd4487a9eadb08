# SPDX-License-Identifier: Apache-2.0
"""From a plan to commands: instructions in sequential order, a file a layer kind."""
