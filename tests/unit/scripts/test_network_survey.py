# SPDX-License-Identifier: Apache-2.0
"""The page of networks: what agrees, what is kept, what the page says."""

import importlib
import json
import pathlib
import types

import numpy as np
import pytest

RESULT = {
    "quantize_seconds": 1.2, "quantize_megabytes": 300.0, "macs": 2_000_000, "nodes": 9,
    "source": "own definition", "task": "classification", "form": "files",
    "targets": {
        target: {
            "compile_seconds": 3.0, "compile_megabytes": 250.0, "dpu": 1, "cpu": 2,
            "macs": 1_500_000, "cpu_macs": 500_000, "cpu_ms": 0.25,
            "on_cpu": [], "cycles": 12345, "utilization": 0.5,
            "slow": [
                {"layer": "conv", "cycles": 700, "reason": "load", "utilization": 0.125},
            ],
            **({"sqnr": 21.26, "agreement": ["top 1", 7, 8]} if target == "B4096" else {}),
        }
        for target in ("B512", "B4096")
    },
}  # fmt: skip


@pytest.fixture
def script(repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(repository / "scripts" / "bench"))
    monkeypatch.syspath_prepend(str(repository / "scripts"))
    return importlib.import_module("networks_page")


@pytest.fixture
def agreement(script: types.ModuleType) -> types.ModuleType:
    return importlib.import_module("network_survey.agreement")


def test_noise_is_that_of_the_worst_result(agreement: types.ModuleType) -> None:
    wanted = {"a": np.full((1, 4), 10.0), "b": np.full((1, 4), 1.0)}
    found = {"a": wanted["a"] + 0.1, "b": wanted["b"] + 0.1}
    assert agreement.sqnr(wanted, found) == pytest.approx(20.0)
    assert agreement.sqnr(wanted, wanted) is None


def test_classes_and_pixels(agreement: types.ModuleType) -> None:
    wanted = {"scores": np.array([[[0.1, 0.9]], [[0.8, 0.2]]])}
    found = {"scores": np.array([[[0.2, 0.8]], [[0.3, 0.7]]])}
    assert agreement.agreement("classes", wanted, found) == ("top 1", 1, 2)
    upright = [{"x": r["scores"][..., None, None]} for r in (wanted, found)]  # [1, 2, 1, 1] each
    assert agreement.agreement("classes", *upright) == ("top 1", 1, 2)
    image = np.zeros((1, 1, 2, 2, 2))
    image[0, 0, 1, 0, 0] = 1.0
    assert agreement.agreement("pixels", {"x": image}, {"x": 0 * image}) == ("pixels", 3, 4)
    assert agreement.agreement("", wanted, found) is None


def test_texts_are_compared_without_repetitions_and_blanks(agreement: types.ModuleType) -> None:
    def spelled(*symbols: int) -> np.ndarray:
        return np.eye(4)[list(symbols)][None]

    wanted = {"x": np.stack([spelled(1, 1, 0, 2), spelled(1, 0, 1, 2)])}
    found = {"x": np.stack([spelled(0, 1, 2, 2), spelled(1, 1, 1, 2)])}
    assert agreement.agreement("text", wanted, found) == ("texts", 1, 2)


def test_boxes_that_are_missed_or_added_count(agreement: types.ModuleType) -> None:
    def boxes(*found: tuple[float, float, int, float]) -> dict[str, np.ndarray]:
        result = np.zeros((1, 1, 4 + 2, 5))
        for anchor, (x, y, kind, score) in enumerate(found):
            result[0, 0, :4, anchor] = x, y, 10, 10
            result[0, 0, 4 + kind, anchor] = score
        return {"x": result}

    wanted = boxes((20, 20, 0, 0.9), (21, 20, 0, 0.8), (60, 60, 1, 0.7), (5, 5, 0, 0.2))
    for found, same, count in (
        (wanted, 2, 2),  # the second is the same box as the first
        (boxes((21, 21, 0, 0.6)), 1, 2),
        (boxes((20, 20, 1, 0.9), (60, 60, 1, 0.7)), 1, 3),  # another class
    ):
        assert agreement.agreement("boxes", wanted, found) == ("boxes", same, count)


def test_masks(agreement: types.ModuleType) -> None:
    wanted, found = np.array([[0.9, 0.9, 0.1]]), np.array([[0.9, 0.2, 0.1]])
    assert agreement.agreement("mask", {"x": wanted}, {"x": found}) == ("text pixels", 1, 2)


def kept(folder: pathlib.Path, name: str, **machine: str) -> None:
    content = {"machine": {"Python": "3", **machine}, "results": {"none": RESULT, "hard": RESULT}}
    (folder / f"{name}.json").write_text(json.dumps(content))


def test_page(script: types.ModuleType, tmp_path: pathlib.Path) -> None:
    kept(tmp_path, "unet")
    text = script.text(tmp_path)
    assert "Measured on: Python 3.\n" in text
    assert "| unet | 0.002 | 75.0% | 1 | 2 | 12,345 | 50.0% | 0.2 |\n" in text
    assert "| unet **hard** | files | 21.3 dB | top 1: 7 of 8 |\n" in text
    assert "* unet: `conv` (700, load, 12%)" in text


def test_page_of_one_machine(script: types.ModuleType, tmp_path: pathlib.Path) -> None:
    with pytest.raises(SystemExit, match="nothing is measured"):
        script.text(tmp_path)
    kept(tmp_path, "unet")
    kept(tmp_path, "crnn", numpy="1")
    with pytest.raises(SystemExit, match="measured with different versions; use --again"):
        script.text(tmp_path)


def test_a_run_goes_on_where_the_last_one_ended(
    script: types.ModuleType, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def step(folder: pathlib.Path, *arguments: str) -> dict[str, object]:
        asked.append(arguments)
        return {}

    monkeypatch.setattr(script, "step", step)
    monkeypatch.setattr(script, "substitutable", lambda graph: False)
    monkeypatch.setattr(script, "has_functions", lambda graph: True)
    (tmp_path / "crnn.json").write_text("{")  # a run that was cut short
    kept(tmp_path, "m5")
    assert script.survey(["m5", "crnn"], tmp_path, again=False) == []
    wanted = [("m5", "table"), ("crnn", "none"), ("crnn", "table")]  # m5 has none and hard
    assert [a[1:] for a in asked if a[0] == "quantize"] == wanted
    script.survey(["m5", "crnn"], tmp_path, again=False)
    assert [a[1:] for a in asked if a[0] == "quantize"] == wanted
    script.survey(["m5"], tmp_path, again=True)
    assert asked[-3:] == [
        ("quantize", "m5", "table"), ("compile", "m5", "table", "B512"),
        ("compile", "m5", "table", "B4096"),
    ]  # fmt: skip


def test_check(
    script: types.ModuleType, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(tmp_path, "unet")
    monkeypatch.setattr(script, "PAGE", tmp_path / "networks.md")
    monkeypatch.setattr("sys.argv", ["networks_page.py", "--check", "--folder", str(tmp_path)])
    script.PAGE.write_text(script.text(tmp_path))
    script.main()
    script.PAGE.write_text(script.text(tmp_path) + "more\n")
    with pytest.raises(SystemExit, match="write it again"):
        script.main()


def test_every_network_is_measured(script: types.ModuleType) -> None:
    networks = importlib.import_module("networks")
    packaged = importlib.import_module("networks.packaged")
    assert script.SUBJECTS.keys() == networks.NETWORKS.keys() | packaged.PACKAGED.keys()


def test_samples_are_seeded(script: types.ModuleType) -> None:
    module = importlib.import_module("network_survey.samples")
    for form, (kind, _) in module.FORMS.items():
        shape = {"sound": (1, 1, 320), "file": (1, 128)}.get(kind, (1, 3, 32, 48))
        one, other = (
            module.samples(form, shape, np.dtype("f4"), 2, 5, whole=True) for _ in range(2)
        )
        np.testing.assert_array_equal(one, other)
        channels = 1 if "luminance" in form else 3
        assert one.shape[1:] == (shape[1:] if len(shape) < 4 else (channels, 32, 48))
        assert np.abs(one[0] - one[1]).max() > 0
        unseen = module.samples(form, shape, np.dtype("f4"), 2, 6, whole=False)
        assert all(np.abs(sample - seen).max() > 0 for sample in unseen for seen in one)
