# SPDX-License-Identifier: Apache-2.0
"""What tells one graph from another."""

import hashlib

import numpy as np

from opendpu.ir.graph import Graph


def digest_of(graph: Graph) -> str:
    """Return a digest of everything in a graph: ops, attributes, types, constants.

    It is the same in every process, whichever of its strings are one object.
    """
    found = hashlib.sha256()
    for node in graph:
        found.update(
            f"{node.name}|{node.kind}|{node.type}|{node.inputs}|{node.tensor}|{node.reason}|"
            f"{node.origin}|{sorted(node.attrs.items(), key=lambda item: item[0])}\n".encode()
        )
        if node.value is not None:
            found.update(np.ascontiguousarray(node.value).tobytes())
    found.update(f"{graph.name}|{graph.outputs}|{sorted(graph.attrs.items())}".encode())
    return found.hexdigest()
