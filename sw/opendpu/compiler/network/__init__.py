# SPDX-License-Identifier: Apache-2.0
"""Networks of layers: what one DPU part computes, how long its feature maps live, rewrites."""

from opendpu.compiler.network.alias import Alias, root_of
from opendpu.compiler.network.network import LayerRange, Network

__all__ = ["Alias", "LayerRange", "Network", "root_of"]
