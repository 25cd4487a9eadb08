# SPDX-License-Identifier: Apache-2.0
"""Pass: which ops run on the DPU, and in which subgraph."""

from opendpu.compiler.partition.islands import partition_by_cost
from opendpu.compiler.partition.split import ALONE, partition
from opendpu.compiler.partition.value import Part, Partition, Partitioned, PartitionedPart

__all__ = [
    "ALONE",
    "Part",
    "Partition",
    "Partitioned",
    "PartitionedPart",
    "partition",
    "partition_by_cost",
]
