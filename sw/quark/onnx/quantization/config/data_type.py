# SPDX-License-Identifier: Apache-2.0
"""Quark's data types: what stands for the specification of all tensors of a layer."""

from quark.onnx.quantization.config import spec
from quark.onnx.quantization.config.spec import QTensorConfig


class DataType:
    """A data type; its subclasses are given as they are, or called first.

    ``spec`` is the specification of tensors of it.
    """

    spec: type[QTensorConfig]


def _named(name: str) -> type[DataType]:
    found: type[QTensorConfig] = getattr(spec, f"{name}Spec")
    return type(name, (DataType,), {"spec": found, "__doc__": found.__doc__})


Int8, UInt8, XInt8 = _named("Int8"), _named("UInt8"), _named("XInt8")
Int16, UInt16, Int32 = _named("Int16"), _named("UInt16"), _named("Int32")
Float16, BFloat16, BFP16 = _named("Float16"), _named("BFloat16"), _named("BFP16")
