# SPDX-License-Identifier: Apache-2.0
"""Messages have the guide's form, and only ids of its tables."""

import pytest

from opendpu_arch.errors import DPUError

pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from pytorch_nndct import messages


def test_notes_and_warnings_are_printed_in_the_guides_form(
    capsys: pytest.CaptureFixture[str],
) -> None:
    messages.note("=>Start to inspect model...")
    messages.warn("QUANTIZER_TORCH_LEAKYRELU", "op 'act' has slope 0.2")
    assert capsys.readouterr().out == (
        "\n[VAIQ_NOTE]: =>Start to inspect model...\n"
        "\n[VAIQ_WARN][QUANTIZER_TORCH_LEAKYRELU]: op 'act' has slope 0.2\n"
    )


def test_an_error_is_one_of_our_family_with_its_code() -> None:
    made = messages.error("QUANTIZER_TORCH_NO_CALIBRATION", "quant_model was never called")
    assert isinstance(made, DPUError)
    assert made.code == "QUANTIZER_TORCH_NO_CALIBRATION"
    assert str(made) == (
        "[VAIQ_ERROR][QUANTIZER_TORCH_NO_CALIBRATION]: quant_model was never called"
    )


@pytest.mark.parametrize("name", ["QUANTIZER_TORCH_FOO", "QUANTIZER_TORCH_NO_CALIBRATION"])
def test_a_warning_has_an_id_of_the_table_of_warnings(name: str) -> None:
    with pytest.raises(KeyError, match=name):
        messages.warn(name, "…")


def test_an_error_has_an_id_of_the_table_of_errors() -> None:
    with pytest.raises(KeyError, match="QUANTIZER_TORCH_LEAKYRELU"):
        messages.error("QUANTIZER_TORCH_LEAKYRELU", "…")
