# SPDX-License-Identifier: Apache-2.0
"""The report of a quantization as one HTML page, pictures inside, for people."""

from collections.abc import Sequence

from opendpu.evaluation.advice import advice, steepest
from opendpu.evaluation.charts import bar, by_layer, histogram
from opendpu.evaluation.markup import Content, Markup, document, element, joined, picture, table
from opendpu.evaluation.sensitivity import LayerSensitivity
from opendpu.quantize.report import LayerReport, Report, TensorReport

STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1100px; color: #222 }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em }
table { border-collapse: collapse } td, th { padding: 3px 12px 3px 0; text-align: left;
  vertical-align: middle; border-bottom: 1px solid #eee; font-variant-numeric: tabular-nums }
th { color: #666; font-weight: 600 } code { font-size: 12px }
.origin { color: #888; font-size: 12px }
svg { max-width: 100% } li { margin: 4px 0 } .bad { color: #b03030 }
"""

FITTED = " that scales, weights or biases were fitted to: others have more noise"
"""What samples are where none were left to measure on."""

WORST = 20
"""Layers of the list of the most harmful ones."""


def page(
    name: str,
    report: Report,
    sensitivities: Sequence[LayerSensitivity] | None = None,
) -> str:
    """Return the report of a model called ``name`` as an HTML document."""
    parts: list[Content] = [
        element("h1", f"Quantization of {name}"),
        _summary(report),
        _outputs(report),
        _listed("What to try", advice(report)),
        _listed("Remarks", report.notes),
        _most_harmful(report),
        _sensitivities(sensitivities),
        _chart(report),
        _tensors(report),
        _floating(report),
    ]
    return document(f"Quantization of {name}", STYLE, joined(parts))


def _summary(report: Report) -> Markup:
    runs = "yes" if not report.obstacles else f"no, because {'; '.join(report.obstacles)}"
    facts = [
        ("calibrated with", f"{report.samples} samples"),
        ("runs on a DPU", runs),
        ("quantized tensors", str(len(report.tensors))),
        ("ops that stay in float", str(len(report.floating))),
        ("activations replaced", str(len(report.substituted))),
    ]
    return table(("", ""), [(key, value) for key, value in facts])


def _outputs(report: Report) -> Markup | None:
    if not report.outputs_sqnr:
        return None
    rows = [
        (element("code", name), decibels(ratio), picture(bar(ratio)))
        for name, ratio in report.outputs_sqnr.items()
    ]
    text = (
        f"Signal to quantization noise, quantized network against float network, on "
        f"{report.measured_samples} samples{'' if report.measured_apart else FITTED}."
    )
    heads = ("output", "signal to noise", "")
    return joined((element("h2", "Outputs"), element("p", text), table(heads, rows)))


def _listed(title: str, lines: Sequence[str]) -> Markup | None:
    if not lines:
        return None
    return joined((element("h2", title), element("ul", *(element("li", line) for line in lines))))


def _most_harmful(report: Report) -> Markup | None:
    """Return the layers at which most is lost, the worst first."""
    falls = steepest(report.layers)[:WORST]
    if not falls:
        return None
    rows = [
        (
            named(layer.name, layer.origin), layer.kind, f"-{fall:.1f} dB",
            decibels(layer.output_sqnr), decibels(layer.weights_sqnr),
            picture(bar(layer.output_sqnr)),
        )
        for layer, fall in falls
    ]  # fmt: skip
    heads = ("layer", "kind", "lost here", "result", "weights", "")
    return joined(
        (
            element("h2", "Most harmful layers"),
            element("p", "Where the signal to noise falls most from one layer to the next."),
            table(heads, rows),
        )
    )


def _sensitivities(found: Sequence[LayerSensitivity] | None) -> Markup | None:
    if not found:
        return None
    rows = [
        (named(one.name, one.origin), one.kind, f"{one.gain:+.2f} dB", decibels(one.alone_sqnr))
        for one in found
    ]
    heads = (
        "layer",
        "kind",
        "outputs gain if it stays in float",
        "outputs if only it is quantized",
    )
    return joined((element("h2", "Which layers deserve more bits"), table(heads, rows)))


def _chart(report: Report) -> Markup | None:
    chart = by_layer(report.layers)
    if chart is None:
        return None
    rows = [_layer_row(layer) for layer in report.layers]
    every = table(("layer", "kind", "result", "weights"), rows)
    return joined(
        (
            element("h2", "Signal to noise, layer by layer"),
            picture(chart),
            element("details", element("summary", f"all {len(rows)} layers"), every),
        )
    )


def _layer_row(layer: LayerReport) -> Sequence[Content]:
    return (
        named(layer.name, layer.origin), layer.kind, decibels(layer.output_sqnr),
        decibels(layer.weights_sqnr),
    )  # fmt: skip


def _tensors(report: Report) -> Markup | None:
    if not report.tensors:
        return None
    ordered = sorted(report.tensors, key=lambda t: float("inf") if t.sqnr is None else t.sqnr)
    heads = ("tensor", "role", "bits", "scale", "range", "saturates", "noise", "values")
    return joined(
        (
            element("h2", "Tensors"),
            element(
                "p",
                "Coarsest first. Values on a logarithmic scale; what lies outside of the red lines "
                "saturates.",
            ),
            table(heads, [_tensor_row(tensor) for tensor in ordered]),
        )
    )


def _tensor_row(tensor: TensorReport) -> Sequence[Content]:
    values = histogram(tensor)
    return (
        element("code", tensor.name), tensor.role,
        str(tensor.bits) if tensor.number_format == "int" else tensor.number_format,
        scale_text(tensor), f"{tensor.minimum:.4g} .. {tensor.maximum:.4g}",
        f"{100 * tensor.saturation:.2g} %" if tensor.saturation else "", decibels(tensor.sqnr),
        None if values is None else picture(values),
    )  # fmt: skip


def _floating(report: Report) -> Markup | None:
    if not report.floating:
        return None
    names = element("ul", *(element("li", element("code", name)) for name in report.floating))
    title = element("summary", f"{len(report.floating)} ops stay in float, on the CPU")
    return joined((element("h2", "Not quantized"), element("details", title, names)))


def scale_text(tensor: TensorReport) -> str:
    """Return a scale for people: a power of two, a number, or how many there are."""
    if tensor.fix_point is not None:
        return f"2^{-tensor.fix_point}"
    if len(tensor.scale) == 1:
        return f"{tensor.scale[0]:.4g}"
    return f"{len(tensor.scale)} scales" if tensor.scale else ""


def decibels(ratio: float | None) -> Markup:
    """Return a signal to noise ratio for people; none where nothing changes."""
    if ratio is None:
        return element("span", "unchanged")
    return element("span", f"{ratio:.1f} dB", class_="bad" if ratio < 15 else "good")


def named(name: str, origin: str) -> Markup:
    """Return the name of a layer, and below it where it comes from."""
    below = element("div", origin, class_="origin") if origin and origin != name else None
    return element("div", element("code", name), below)
