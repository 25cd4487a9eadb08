# SPDX-License-Identifier: Apache-2.0
"""From AMD's quantizing operators to ONNX's own QuantizeLinear and DequantizeLinear.

python -m vai_q_onnx.tools.convert_customqdq_to_qdq --input_model Q.onnx --output_model QDQ.onnx
"""

import argparse
import os
import sys

from opendpu.export import to_onnx
from opendpu.export.files import write_onnx
from opendpu.frontend import load_onnx
from opendpu.quantize import complete, is_quantized
from opendpu_arch import outputs
from opendpu_arch.errors import DPUError, UnsupportedError

Path = str | os.PathLike[str]


def convert_customqdq_to_qdq(input_model: Path, output_model: Path) -> None:
    """Write a quantized model with nothing but ONNX's own operators, which round halves to even.

    Raises
    ------
    UnsupportedError
        The model is not quantized.
    DPUError
        It cannot be read, or the result cannot be written.
    """
    outputs.check(output_model, inputs=[input_model])
    graph = load_onnx(os.fspath(input_model))
    if not is_quantized(graph):
        raise UnsupportedError(f"model {graph.name!r} is not quantized")
    write_onnx(to_onnx(complete(graph), exact=False), output_model)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=convert_customqdq_to_qdq.__doc__)
    parser.add_argument("--input_model", required=True)
    parser.add_argument("--output_model", required=True)
    given = parser.parse_args()
    try:
        convert_customqdq_to_qdq(given.input_model, given.output_model)
    except DPUError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
