# SPDX-License-Identifier: Apache-2.0
"""Writes the corpus that fuzzing begins with: small files that use much of their formats.

Run it after a change of a format: ``python tests/fuzz/seeds.py``.
"""

import io
import pathlib

import numpy as np
import onnx

import xir
from opendpu_arch import isa
from opendpu_arch.target import Target
from opendpu_sim.progen import ENGINES, random_program
from xir import proto

CORPUS = pathlib.Path(__file__).parent / "corpus"
B64 = Target.from_name("B64")


def small(graph: xir.Graph) -> bytes:
    """Return the bytes of a graph without the definitions of the op library."""
    message = proto.Graph.FromString(graph.to_bytes())
    del message.op_defs[:]
    return bytes(message.SerializeToString(deterministic=True))


def quantized() -> xir.Graph:
    """Return a graph of float and fix ops, with attributes of every kind."""
    graph = xir.Graph("q")
    x = graph.create_op("x", "data", {"shape": [1, 4, 4, 2], "data_type": "FLOAT32"})
    w = graph.create_const_op("w", np.zeros((2, 1, 1, 2), np.float32))
    c = graph.create_op(
        "c", "conv2d", {"kernel": [1, 1], "stride": [1, 1], "pad_mode": "FLOOR"},
        {"input": [x], "weights": [w]},
    )  # fmt: skip
    fix = {"fix_point": 3, "bit_width": 8, "round_mode": "DPU_ROUND", "if_signed": True}
    graph.create_op("c_fix", "fix", fix, {"input": [c]})
    graph.set_attr("return_ops", ["c_fix"]).set_attr("d", 0.5).set_attr("m", {"a": b"b"})
    return graph


def compiled() -> xir.Graph:
    """Return a graph with a DPU subgraph that has everything a runner looks for."""
    graph = xir.Graph("c")
    x = graph.create_op("x", "data-fix", {"shape": [1, 1, 1, 4], "data_type": "XINT8"})
    up = graph.create_op("up", "upload", {}, {"input": [x]})
    down = graph.create_op("down", "download", {}, {"input": [up]})
    for op, register in ((up, 2), (down, 3)):
        tensor = op.get_output_tensor().set_attr("reg_id", register)
        tensor.set_attr("ddr_addr", 0).set_attr("fix_point", 3).set_attr("stride", [4, 4, 4, 1])
    user, dpu = graph.get_root_subgraph().split([("user", [x]), ("dpu", [up, down])])
    user.set_attr("device", "USER")
    dpu.set_attrs(
        {
            "device": "DPU",
            "dpu_fingerprint": B64.fingerprint,
            "mc_code": isa.encode([isa.End(dpdon=0, dpdby=0)]),
            "reg_id_to_context_type": {"REG_0": "CONST", "REG_2": "DATA", "REG_3": "DATA"},
            "reg_id_to_size": {"REG_0": 4, "REG_2": 4, "REG_3": 4},
            "reg_id_to_parameter_value": {"REG_0": b"\1\2\3\4"},
        }
    )
    return graph


def network(quantized: bool) -> bytes:
    """Return an ONNX file: a convolution, a pool and a dense layer; or a quantized convolution."""
    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    constants = {"w": np.ones((2, 1, 1, 1), np.int8 if quantized else np.float32)}
    if quantized:
        constants |= {"s": np.float32(0.5), "z": np.int8(0)}
        nodes = [
            node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            node("DequantizeLinear", ["w", "s", "z"], ["v"]),
            node("Conv", ["d", "v"], ["y"]),
        ]
    else:
        constants |= {"b": np.ones(2, np.float32), "m": np.ones((2, 3), np.float32)}
        nodes = [
            node("Conv", ["x", "w", "b"], ["c"], pads=[0, 0, 0, 0]),
            node("Relu", ["c"], ["r"]),
            node("GlobalAveragePool", ["r"], ["p"]),
            node("Flatten", ["p"], ["f"]),
            node("Gemm", ["f", "m"], ["y"]),
        ]
    graph = onnx.helper.make_graph(
        nodes,
        "n",
        [info("x", onnx.TensorProto.FLOAT, (1, 1, 2, 2))],
        [info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    return bytes(
        onnx.helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    )


def main() -> None:
    """Write every file."""
    files: dict[str, bytes] = {
        "xmodel/quantized": small(quantized()),
        "xmodel/compiled": small(compiled()),
        "onnx/float": network(quantized=False),
        "onnx/quantized": network(quantized=True),
    }
    for engine in ENGINES:
        code = min((random_program(engine, B64, seed)[0] for seed in range(20)), key=len)
        for folder in ("code", "iss"):
            files[f"{folder}/{engine}"] = code
    for name, array in {"int8": np.arange(4, dtype=np.int8), "float": np.zeros((1, 2, 2))}.items():
        buffer = io.BytesIO()
        np.savez(buffer, x=array)
        files[f"npz/{name}"] = buffer.getvalue()
        buffer = io.BytesIO()
        np.save(buffer, array)
        files[f"npz/{name}_npy"] = buffer.getvalue()
    npys = (files["npz/int8_npy"], files["npz/float_npy"])
    files["npz/several"] = b"x.npy\n../y.npy\nx" + b"".join((*npys, npys[0]))
    for name, content in files.items():
        path = CORPUS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
