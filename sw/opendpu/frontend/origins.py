# SPDX-License-Identifier: Apache-2.0
"""Where ONNX nodes come from, as exporters note it."""

import re

import onnx

from opendpu.ir.types import Origin

STACK_TRACE = "pkg.torch.onnx.stack_trace"
"""Metadata of a node: a Python traceback, the innermost call last."""
_FRAME = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+)')
_PYTORCH = re.compile(r"-packages[/\\]torch[/\\]")
"""In the path of a file of PyTorch, as it is installed."""
_SCRIPT_FRAME = re.compile(r"^\s*(?P<file>\S+\.py)\((?P<line>\d+)\)", re.MULTILINE)
"""As TorchScript's exporter writes it into ``doc_string``: the innermost call first."""


def origin_of(node: onnx.NodeProto) -> Origin:
    """Return name, operator and, where it is noted, the source line of a node."""
    name = node.name or next(iter(node.output), "")
    return Origin(name=name, op_type=node.op_type, line=_line(node))


def line_of_trace(text: str) -> str:
    """Return ``file.py:12`` of the innermost call in a traceback that is not PyTorch's own."""
    frames = list(_FRAME.finditer(text))
    users = [frame for frame in frames if not _PYTORCH.search(frame["file"])]
    return _shown((users or frames)[-1]) if frames else ""


def _line(node: onnx.NodeProto) -> str:
    for item in node.metadata_props:
        if item.key == STACK_TRACE:
            return line_of_trace(item.value)
    text = node.doc_string
    if isinstance(text, bytes):  # what protobuf makes of text that is no UTF-8
        return ""
    match = _SCRIPT_FRAME.search(text)
    return _shown(match) if match else ""


def _shown(frame: re.Match[str]) -> str:
    return f"{frame['file'].rsplit('/', 1)[-1]}:{frame['line']}"
