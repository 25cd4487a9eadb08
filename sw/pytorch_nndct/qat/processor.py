# SPDX-License-Identifier: Apache-2.0
"""``QatProcessor``: a module to be trained, and what is deployed of it."""

import dataclasses
import os
import pathlib
from typing import Any

import torch

from opendpu.frontend.pytorch import Traced
from opendpu.ir import QuantizedGraph
from opendpu_arch.errors import UnsupportedError
from pytorch_nndct import messages, result
from pytorch_nndct.export import onnx_file, torch_script, xmodel
from pytorch_nndct.layer_names import layer_names
from pytorch_nndct.program import IntegerNetwork
from pytorch_nndct.qat import folded
from pytorch_nndct.qat.evaluation import Evaluation
from pytorch_nndct.qat.model import TrainableModel, unwrapped
from pytorch_nndct.qat.plan import Plan
from pytorch_nndct.qat.source import Source
from pytorch_nndct.quant_model import IntegerModel
from pytorch_nndct.settings import config_of

OUTPUT_DIR = "qat_result"


class QatProcessor:
    """Makes a float module trainable with rounding, and deployable afterwards.

    Parameters
    ----------
    model
        Float module, trained: between QuantStub and DeQuantStub all operations are modules, and
        none is called twice.
    inputs
        What it is called with: a tensor, or a tuple of arguments. Values may be random.
    bitwidth
        Of weights and results.
    mix_bit
        Accepted as False: bit widths are the same everywhere.
    device
        Has no effect, the module's own counts.
    quant_config_file
        The guide's JSON; what counts is ``bit_width`` of weights and of activations.

    Raises
    ------
    VAIQError
        An error of the guide's Table 23.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        inputs: Any,
        bitwidth: int = 8,
        mix_bit: bool = False,
        device: Any = None,
        *,
        quant_config_file: str | os.PathLike[str] | None = None,
    ) -> None:
        if isinstance(model, torch.nn.DataParallel):
            raise messages.error(
                "QUANTIZER_TORCH_DATA_PARALLEL_NOT_ALLOWED",
                "the module is in torch.nn.DataParallel; give model.module, and put what "
                "trainable_model returns into DataParallel",
            )
        if mix_bit:
            raise UnsupportedError("mix_bit is True, but must be False")
        if device is not None:
            messages.warn(
                "QUANTIZER_TORCH_DEPRECATED_ARGUMENT",
                "the argument device has no effect: the module's device counts",
            )
        self._model = model
        self._name = type(model).__name__
        config = config_of(
            quant_config_file, None if quant_config_file else bitwidth, None, switched=False
        )
        self._source = Source(model, inputs, dataclasses.replace(
            config, cross_layer=False, bias_correction=False,
            refinement=False, weight_correction=False,
        ))  # fmt: skip
        self._trainable: TrainableModel | None = None
        self._deployed: IntegerModel | None = None

    @property
    def deployed(self) -> torch.nn.Module | None:
        """What :meth:`to_deployable` or :meth:`deployable_model` returned last."""
        return self._deployed

    def trainable_model(
        self, calib_dir: str | os.PathLike[str] = "", allow_reused_module: bool = False
    ) -> TrainableModel:
        """Return the module to train.

        Parameters
        ----------
        calib_dir
            A folder where ``torch_quantizer`` has left scales of this module, to begin with; by
            default they begin with what the first batch needs.
        allow_reused_module
            Whether a module may be called several times; its results then have one scale.

        Raises
        ------
        VAIQError
            There is no QuantStub, an operation to be rounded is no module, or one is called twice.
        """
        self._source = dataclasses.replace(self._source, reused=allow_reused_module)
        plan, traced = self._source.planned()
        config = self._source.config
        found = TrainableModel(
            self._model, plan, config.activation.bits, config.weights.bits,
            Evaluation(self._source),
        )  # fmt: skip
        if os.fspath(calib_dir):
            self._begin(found, plan, traced, pathlib.Path(calib_dir))
        self._trainable = found
        return found

    def to_deployable(
        self,
        trained_model: torch.nn.Module | None = None,
        output_dir: str | os.PathLike[str] = OUTPUT_DIR,
    ) -> torch.nn.Module:
        """Return what the compiled program computes, to the bit; write it to ``output_dir``.

        Its parameters are the trained ones, with batch normalizations in them.

        Raises
        ------
        VAIQError
            :meth:`trainable_model` was not called, or batch normalizations are in the weights.
        """
        trained = self._trained(trained_model)
        if not trained.trained:
            messages.warn(
                "QUANTIZER_TORCH_SCALE_VALUE", "the scales that are exported were not trained"
            )
        module = trained.float_module(self._model).cpu()
        plan, traced = self._source.planned(module)
        graph = plan.quantized(trained.result_points(), trained.weight_points())
        folder = pathlib.Path(output_dir)
        places = {n: p for n, p in traced.places.items() if n in traced.graph.nodes}
        result.write(folder, self._name, result.Result(
            graph, result.structure_of(traced.graph), result.weights_of(traced.graph),
            finetuned=False, bias_corrected=False,
        ), layer_names(self._name, places))  # fmt: skip
        deployable = trained.folded_module(self._model).cpu()
        folded.save(folder, self._name, deployable)
        messages.note(f"the deployable model is in {folder}")
        return self._deploying(deployable, traced, graph)

    def convert_to_deployable(
        self,
        trained_model: torch.nn.Module | None = None,
        output_dir: str | os.PathLike[str] = OUTPUT_DIR,
    ) -> torch.nn.Module:
        """Do what :meth:`to_deployable` does; return the float module with trained parameters."""
        messages.warn(
            "QUANTIZER_TORCH_DEPRECATED_ARGUMENT",
            "convert_to_deployable returns the float module with what was trained; to_deployable "
            "returns what is deployed",
        )
        trained = self._trained(trained_model)
        self.to_deployable(trained, output_dir)
        return trained.float_module(self._model).eval()

    def quant_model(self) -> TrainableModel:
        """Return what :meth:`trainable_model` does, the same one in every call."""
        return self._trainable if self._trainable is not None else self.trainable_model()

    def deployable_model(
        self, src_dir: str | os.PathLike[str] = OUTPUT_DIR, used_for_xmodel: bool = False
    ) -> torch.nn.Module:
        """Return what :meth:`to_deployable` has written, in this process or another.

        Parameters
        ----------
        src_dir
            Its folder.
        used_for_xmodel
            Accepted: the model is computed on the CPU anyway.

        Raises
        ------
        VAIQError
            There is nothing, or of another module.
        """
        traced = self._source.traced()
        folder = pathlib.Path(src_dir)
        found = result.read(folder, self._name, traced.graph, trained=True)
        module = folded.load(folder, self._name, self._model)
        return self._deploying(module, traced, found.graph)

    def export_xmodel(
        self, output_dir: str | os.PathLike[str] = OUTPUT_DIR, deploy_check: bool = False,
        dynamic_batch: bool = False,
    ) -> None:  # fmt: skip
        """Write ``<Module>_0_int.xmodel`` as ``torch_quantizer``'s method of this name does.

        The deployable model must have been called.
        """
        model, network = self._exporting()
        name = xmodel.graph_name(self._name, model.traced.floating)
        xmodel.write(network, pathlib.Path(output_dir), name, model.last, deploy_check=deploy_check)

    def export_onnx_model(
        self, output_dir: str | os.PathLike[str] = OUTPUT_DIR, verbose: bool = False,
        dynamic_batch: bool = False, opset_version: int | None = None, native_onnx: bool = True,
        dump_layers: bool = False, check_model: bool = False, opt_graph: bool = False,
    ) -> None:  # fmt: skip
        """Write ``<Module>_int.onnx`` as ``torch_quantizer``'s method of this name does.

        The deployable model must have been called.
        """
        model, network = self._exporting()
        choice = onnx_file.Choice(
            native=native_onnx, dynamic_batch=dynamic_batch, opset=opset_version, verbose=verbose,
            dump_layers=dump_layers, check=check_model, optimized=opt_graph,
        )  # fmt: skip
        onnx_file.write(network, pathlib.Path(output_dir), self._name, model.last, choice)

    def export_torch_script(
        self, output_dir: str | os.PathLike[str] = OUTPUT_DIR, verbose: bool = False
    ) -> torch.jit.ScriptModule:
        """Write ``<Module>_int.pt``; the deployable model must have been called."""
        model, network = self._exporting()
        return torch_script.write(
            network, pathlib.Path(output_dir), self._name, model.last, model.traced,
            verbose=verbose,
        )  # fmt: skip

    def _begin(
        self, model: TrainableModel, plan: Plan, traced: Traced, folder: pathlib.Path
    ) -> None:
        """Begin with the scales of a calibration, where they are of this module's numbers."""
        found = result.read(folder, self._name, traced.graph, trained=True)
        if found.weights != result.weights_of(traced.graph):
            messages.note(
                f"scales in {folder} are of other weights than this module's: the first batch "
                "decides the scales"
            )
            return
        foreign = model.begin(plan, found.graph)
        if foreign:
            messages.note(
                f"calibration has equalized channels of {len(foreign)} layers, for example "
                f"{foreign[0]!r}: the first batch decides the scales there and around them"
            )

    def _trained(self, model: torch.nn.Module | None) -> TrainableModel:
        """Return what was trained, as it is to be deployed."""
        if self._trainable is None:
            raise messages.error(
                "QUANTIZER_TORCH_QAT_PROCESS_ERROR",
                "call trainable_model, and train what it returns, before to_deployable",
            )
        return unwrapped(self._trainable if model is None else model)

    def _deploying(
        self, module: torch.nn.Module, traced: Traced, graph: QuantizedGraph
    ) -> IntegerModel:
        network = IntegerNetwork(graph)
        self._deployed = IntegerModel(module, traced, lambda: network)
        return self._deployed

    def _exporting(self) -> tuple[IntegerModel, IntegerNetwork]:
        if self._deployed is None:
            raise messages.error(
                "QUANTIZER_TORCH_QAT_PROCESS_ERROR",
                "call to_deployable or deployable_model before a model is exported",
            )
        if not self._deployed.calls:
            raise messages.error(
                "QUANTIZER_TORCH_NO_FORWARD",
                "the deployable model must be called at least once before it is exported",
            )
        return self._deployed, self._deployed.network
