# SPDX-License-Identifier: Apache-2.0
"""Options of the command line, as the guide has them (UG1414, tables 14 to 16)."""

import argparse
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from opendpu_arch.errors import UnsupportedError


@dataclasses.dataclass(frozen=True)
class Option:
    """An option: its default, and what it says; options without effect say that they are such."""

    name: str
    default: Any
    help: str
    least: float = -math.inf
    most: float = math.inf
    """Bounds of a number's values."""

    @property
    def type(self) -> Callable[[Any], Any]:
        """The type of its values; options without a default are switches."""
        return int if self.default is None else type(self.default)


NO_EFFECT = "Taken, without effect: "
COMMON = (
    Option("input_frozen_graph", "", "The frozen graph."),
    Option("input_nodes", "", "Names of input nodes, with commas."),
    Option("output_nodes", "", "Names of output nodes, with commas."),
    Option("input_shapes", "", "Shapes of inputs, with colons; a batch may be '?'."),
    Option("input_fn", "", "module.function that gives a batch for a step."),
    Option("output_dir", "./quantize_results", "Folder for the results."),
)
DUMP = (
    Option("max_dump_batches", 1, "Batches that are written.", least=1),
    Option("dump_float", 0, "1: write tensors that are not quantized too.", 0, 1),
    Option("dump_input_tensors", "", NO_EFFECT + "tensors of graphs without placeholders."),
)
QUANTIZE = (
    Option("weight_bit", 8, "Bits of weights and biases."),
    Option("activation_bit", 8, "Bits of inputs and results."),
    Option("nodes_bit", "", "Bits of nodes: conv1/Relu:16,conv1/weights:8."),
    Option("method", 1, "0: nothing saturates; 1, 2: least difference."),
    Option("nodes_method", "", "Methods of nodes: conv1/Relu:1."),
    Option("calib_iter", 100, "Batches to calibrate with.", least=1),
    Option("ignore_nodes", "", "Names of nodes that stay in float, with commas."),
    Option("do_cle", None, "1: equalize channels, as it is by default; 0: not.", 0, 1),
    Option("replace_relu6", None, "1: replace ReLU6 by ReLU.", 0, 1),
    Option("replace_sigmoid", 0, "1: replace sigmoid by hard-sigmoid.", 0, 1),
    Option("convert_datatype", 0, "0; other types are for opendpu quantize."),
    Option("output_format", "pb", "pb or onnx."),
    Option("arch_type", "DEFAULT", "DEFAULT."),
    Option("max_dump_batches", 1, NO_EFFECT + "see the command dump."),
    Option("dump_float", 0, NO_EFFECT + "see the command dump."),
    Option("dump_input_tensors", "", NO_EFFECT + "see the command dump."),
    Option("skip_check", 0, NO_EFFECT + "there is nothing to skip."),
    Option("align_concat", 0, NO_EFFECT + "inputs of a concatenation have one scale."),
    Option("align_pool", 0, NO_EFFECT + "input and result of a pool have what is best."),
    Option("simulate_dpu", 1, NO_EFFECT + "graphs have the plain operators."),
    Option("adjust_shift_bias", 1, NO_EFFECT + "shifts are always within the DPU's limits."),
    Option("adjust_shift_cut", 1, NO_EFFECT + "shifts are always within the DPU's limits."),
    Option("scale_all_avgpool", 1, NO_EFFECT + "graphs have the plain operators."),
    Option("replace_softmax", 0, NO_EFFECT + "softmax stays in float."),
)
SESSION = (
    Option("gpu", "", NO_EFFECT + "everything is computed on the CPU."),
    Option("gpu_memory_fraction", 0.5, NO_EFFECT + "everything is computed on the CPU."),
)


def add(parser: argparse.ArgumentParser, options: Sequence[Option]) -> None:
    """Let a parser know some options."""
    for option in options:
        parser.add_argument(
            f"--{option.name}", type=option.type, default=option.default,
            required=option.name == "input_frozen_graph", help=option.help.replace("%", "%%"),
        )  # fmt: skip


def check(given: argparse.Namespace, options: Sequence[Option]) -> None:
    """Check that numbers are within their bounds.

    Raises
    ------
    UnsupportedError
        The first one that is not.
    """
    for option in options:
        value = getattr(given, option.name)
        if isinstance(value, int | float) and not option.least <= value <= option.most:
            bounds = (
                f"{option.least:g} or more" if math.isinf(option.most)
                else f"{option.least:g} to {option.most:g}"
            )  # fmt: skip
            raise UnsupportedError(f"{option.name} is {value}, but must be {bounds}")
