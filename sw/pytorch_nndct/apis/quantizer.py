# SPDX-License-Identifier: Apache-2.0
"""``torch_quantizer``: post-training quantization around the user's own loop."""

import os
import pathlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from opendpu import api
from opendpu.quantize import FinetuneConfig
from opendpu_arch import outputs
from opendpu_arch.errors import UnsupportedError
from pytorch_nndct import messages, result
from pytorch_nndct.calibration import LIMIT
from pytorch_nndct.export import onnx_file, torch_script, xmodel
from pytorch_nndct.program import IntegerNetwork
from pytorch_nndct.qat import QatProcessor
from pytorch_nndct.quant_model import CalibrationModel, IntegerModel, QuantModel
from pytorch_nndct.remarks import remark
from pytorch_nndct.settings import (
    DEFAULT_BITS,
    chosen_device,
    config_of,
    examples,
    load_state,
    unwrapped,
)
from pytorch_nndct.source_code import source_code
from pytorch_nndct.traced_module import TracedModule

OUTPUT_DIR = "quantize_result"
MODES = ("calib", "test")
NUMBERED = {1: "calib", 2: "test"}
"""Modes as the first releases of AMD's quantizer called them."""
FINETUNING = FinetuneConfig()
"""How :meth:`torch_quantizer.fast_finetune` does it."""

_latest: list["weakref.ref[torch_quantizer]"] = []
"""The quantizer that :func:`dump_xmodel` means."""


class torch_quantizer:
    """Quantizes a module in two runs of the same script: ``calib``, then ``test``.

    Parameters
    ----------
    quant_mode
        ``calib``: :attr:`quant_model` computes in float, and :meth:`export_quant_config` finds the
        scales for what it was called with. ``test``: it computes what the compiled program does.
        Scripts for early releases say 1 and 2.
    module
        Float module; quantized as it is in evaluation mode.
    input_args
        What it is called with: a tensor, or a tuple of arguments. Values may be random; a list of
        shapes stands for tensors.
    state_dict_file
        File with the module's parameters, if it has not got them yet.
    output_dir
        Where results are written and looked for.
    bitwidth
        Of all tensors; 8 if neither this nor the configuration says so.
    device
        Where the float module is computed; the quantized one is computed on the CPU.
    quant_config_file
        Quantization strategy as JSON, see the guide. Mode ``test`` takes the ``quant_info.json`` of
        ``output_dir``, too, which it reads anyway.
    target
        The DPU whose limits hold, a name or fingerprint.
    qat_proc
        For training, see :class:`~pytorch_nndct.QatProcessor`.
    dynamo
        Accepted: modules are always traced with ``torch.export``, which is of TorchDynamo.
    mix_bit, lstm, app_deploy, custom_quant_ops
        Accepted where they have AMD's default: what else they stand for is not for this DPU.

    Raises
    ------
    VAIQError
        An error of the guide's Table 23.
    TargetError
        There is no such target.
    """

    def __init__(
        self,
        quant_mode: str | int,
        module: torch.nn.Module,
        input_args: Any = None,
        state_dict_file: str | os.PathLike[str] | None = None,
        output_dir: str | os.PathLike[str] = OUTPUT_DIR,
        bitwidth: int | None = None,
        device: torch.device | str = torch.device("cuda"),  # noqa: B008 - as the guide has it
        quant_config_file: str | os.PathLike[str] | None = None,
        target: str | None = None,
        *,
        mix_bit: bool = False,
        lstm: bool = False,
        app_deploy: str = "CV",
        qat_proc: bool = False,
        custom_quant_ops: Sequence[str] | None = None,
        dynamo: bool = False,
    ) -> None:
        _check_unused(mix_bit=mix_bit, lstm=lstm, app_deploy=app_deploy,
                      custom_quant_ops=custom_quant_ops)  # fmt: skip
        self._processor: QatProcessor | None = None
        if qat_proc:
            self._processor = QatProcessor(module, input_args, bitwidth or DEFAULT_BITS)
            return
        if isinstance(quant_mode, int):
            quant_mode = NUMBERED.get(quant_mode, quant_mode)
        if quant_mode not in MODES:
            given = quant_mode if isinstance(quant_mode, (str, int)) else type(quant_mode).__name__
            raise UnsupportedError(
                f"quant_mode is {given!r}, but must be one of {', '.join(MODES)}"
            )
        if input_args is None:
            raise messages.error(
                "QUANTIZER_TORCH_PYTORCH_TRACE",
                "input_args is missing: the module is traced with it",
            )
        self._mode = quant_mode
        self._folder = pathlib.Path(output_dir)
        self._device = chosen_device(device)
        chosen = api.find_target(target) if target else None
        if quant_mode == "test" and result.is_info(quant_config_file, self._folder):
            quant_config_file = None  # it is read in this mode whether it is named or not
        config = config_of(quant_config_file, bitwidth, chosen)
        float_module = unwrapped(module)
        if state_dict_file is not None:
            load_state(float_module, state_dict_file)
        _check_precision(float_module)
        float_module.to(self._device)
        self._module = TracedModule(
            float_module, examples(input_args), folder=self._folder, asked=config,
            device=self._device, reads=quant_mode == "test",
        )  # fmt: skip
        self._name, traced = self._module.name, self._module.traced
        remark(float_module, traced.graph)
        self._model: QuantModel
        if quant_mode == "calib":
            self._model = CalibrationModel(
                float_module, traced, LIMIT, config.seed, self._module.retrace
            )
        else:
            self._model = IntegerModel(
                float_module, traced, self._module.network, self._module.retrace
            )
        _latest[:] = [weakref.ref(self)]

    @property
    def quant_model(self) -> torch.nn.Module:
        """The module to call instead of the float one."""
        if self._processor is not None:
            return self._processor.trainable_model()
        return self._model

    @property
    def deploy_model(self) -> torch.nn.Module | None:
        """What training gave; nothing, and a warning, without training."""
        if self._processor is None:
            messages.warn(
                "QUANTIZER_TORCH_DEPLOY_MODEL",
                "only quantization aware training (QatProcessor) gives a deployable model",
            )
            return None
        return self._processor.deployed

    def fast_finetune(self, run_fn: Callable[..., Any], run_args: Sequence[Any]) -> None:
        """Finetune weights, biases and scales on what ``run_fn(*run_args)`` calls the model with.

        Only in mode ``calib``; the results are written into ``param.pth``. Calibration afterwards
        leaves them as they are.
        """
        if self._mode == "test":
            messages.warn(
                "QUANTIZER_TORCH_FINETUNE_IGNORED",
                "fast_finetune is for quant_mode 'calib'; call load_ft_param in mode 'test'",
            )
            return
        seen = self._calibration()
        before = seen.restart()
        run_fn(*run_args)
        samples = seen.restart()
        if before.kept:  # of the same sizes then; what is empty may be of the trace's
            seen.reservoir = before
        if not samples.kept:
            raise _never_called("fast_finetune")
        messages.note(f"finetuning {self._name} with {samples.kept} of {samples.seen} samples")
        try:
            graph = self._module.quantized(samples, FINETUNING)
        except MemoryError:
            messages.warn(
                "QUANTIZER_TORCH_MEMORY_SHORTAGE",
                "there is not enough memory to finetune, which is left out; give fewer samples",
            )
            return
        finally:
            samples.close()
        self._module.tuned = graph
        result.write_parameters(self._folder, self._module.as_result(graph))

    def load_ft_param(self) -> None:
        """Take the finetuned parameters that mode ``calib`` has written.

        Raises
        ------
        VAIQError
            There are none, or of another module.
        """
        self._module.take_tuned()

    def export_quant_config(self) -> None:
        """Find the scales for what the model was called with, and write ``quant_info.json``.

        In mode ``test`` the file stays as it is.

        Raises
        ------
        VAIQError
            The model was never called.
        """
        if self._mode == "test":
            messages.note(f"{self._folder / result.INFO} stays as quant_mode 'calib' wrote it")
            return
        seen, module = self._calibration().reservoir, self._module
        if not seen.kept and module.tuned is None:
            raise _never_called("export_quant_config")
        graph = module.tuned
        if graph is None:
            graph = module.quantized(seen)
        result.write(self._folder, self._name, module.as_result(graph), module.names)
        if module.tuned is None:
            result.remove(self._folder, [result.PARAMETERS])
        path = self._folder / f"{self._name}.py"
        outputs.write(path, source_code(self._name, self._module.traced.program))
        messages.note(f"scales are in {self._folder / result.INFO}, names of layers in {path}")

    def export_xmodel(
        self,
        output_dir: str | os.PathLike[str] = OUTPUT_DIR,
        deploy_check: bool = False,
        dynamic_batch: bool = False,
    ) -> None:
        """Write ``<Module>_int.xmodel``, which compiles for any target.

        It is ``<Module>_0_int.xmodel`` where the module has a QuantStub, as of AMD's quantizer.

        Parameters
        ----------
        output_dir
            Where.
        deploy_check
            Whether to write the tensors of the last call's first sample, into
            ``deploy_check_data_int/``.
        dynamic_batch
            Accepted: the file is for one sample, and the runner takes any number of them.
        """
        if self._processor is not None:
            self._processor.export_xmodel(output_dir)
            return
        if not self._exports("export_xmodel"):
            return
        name = xmodel.graph_name(self._name, self._module.traced.floating)
        xmodel.write(self._exporting(), pathlib.Path(output_dir), name, self._last(),
                     deploy_check=deploy_check)  # fmt: skip

    def export_onnx_model(
        self,
        output_dir: str | os.PathLike[str] = OUTPUT_DIR,
        verbose: bool = False,
        dynamic_batch: bool = False,
        opset_version: int | None = None,
        native_onnx: bool = True,
        dump_layers: bool = False,
        check_model: bool = False,
        opt_graph: bool = False,
    ) -> None:
        """Write ``<Module>_int.onnx`` with quantizing operators: ONNX's own, or AMD's ``vai``.

        Parameters
        ----------
        output_dir
            Where.
        verbose
            Whether to print the graph.
        dynamic_batch
            Whether inputs may hold any number of samples.
        opset_version
            Version of ONNX's operators; the one that is needed if not given.
        native_onnx
            Whether operators are ONNX's own; these round as the DPU by a function in the file.
        dump_layers
            Whether to write each layer's result for the last call's first sample, into
            ``onnx_layers/``.
        check_model
            Whether to compare the file, run by onnxruntime, with the ``.xmodel`` on that sample.
        opt_graph
            Whether to let onnxruntime simplify the graph.
        """
        if not self._exports("export_onnx_model"):
            return
        onnx_file.write(
            self._exporting(), pathlib.Path(output_dir), self._name, self._last(),
            onnx_file.Choice(
                native=native_onnx, dynamic_batch=dynamic_batch, opset=opset_version,
                verbose=verbose, dump_layers=dump_layers, check=check_model, optimized=opt_graph,
            ),
        )  # fmt: skip

    def export_torch_script(
        self, output_dir: str | os.PathLike[str] = OUTPUT_DIR, verbose: bool = False
    ) -> Any:
        """Write ``<Module>_int.pt`` and return the TorchScript module; it needs this package."""
        if not self._exports("export_torch_script"):
            return None
        return torch_script.write(
            self._exporting(), pathlib.Path(output_dir), self._name, self._last(),
            self._module.traced, verbose=verbose,
        )  # fmt: skip

    def export_traced_torch_script(
        self, output_dir: str | os.PathLike[str] = OUTPUT_DIR, verbose: bool = False
    ) -> Any:
        """Do what :meth:`export_torch_script` does, under its former name."""
        return self.export_torch_script(output_dir, verbose)

    def _calibration(self) -> CalibrationModel:
        assert isinstance(self._model, CalibrationModel)
        return self._model

    def _exports(self, what: str) -> bool:
        """Return whether this mode exports models; say so where it does not, as AMD's goes on."""
        if self._mode != "test":
            messages.note(f"{what} writes nothing in quant_mode 'calib'; use 'test' afterwards")
        return self._mode == "test"

    def _exporting(self) -> IntegerNetwork:
        """Return the network to export."""
        if not self._model.calls:
            raise messages.error(
                "QUANTIZER_TORCH_NO_FORWARD",
                "quant_model must be called at least once before a model is exported",
            )
        return self._module.network()

    def _last(self) -> Any:
        assert isinstance(self._model, IntegerModel)
        return self._model.last


def dump_xmodel(
    output_dir: str | os.PathLike[str] = OUTPUT_DIR,
    deploy_check: bool = False,
    app_deploy: str = "CV",
) -> None:
    """Write the ``.xmodel`` of the quantizer made last; :meth:`torch_quantizer.export_xmodel`.

    Raises
    ------
    UnsupportedError
        There is none.
    """
    _check_unused(app_deploy=app_deploy)
    quantizer = _latest[0]() if _latest else None
    if quantizer is None:
        raise UnsupportedError("dump_xmodel: there is no torch_quantizer; make one in mode 'test'")
    quantizer.export_xmodel(output_dir, deploy_check)


def _check_unused(**given: Any) -> None:
    """Refuse arguments that would do something here that they do not."""
    usual = {"mix_bit": False, "lstm": False, "app_deploy": "CV", "custom_quant_ops": None}
    for name, value in given.items():
        if value != usual[name]:
            raise UnsupportedError(
                f"{name} is {value!r}, but must be {usual[name]!r}: the rest is not for this DPU"
            )


def _never_called(what: str) -> messages.VAIQError:
    return messages.error(
        "QUANTIZER_TORCH_NO_CALIBRATION",
        f"quant_model was never called before {what}; call it with calibration data",
    )


def _check_precision(module: torch.nn.Module) -> None:
    """Raise VAIQError for a module in another than single precision."""
    for name, tensor in module.state_dict().items():
        if (
            isinstance(tensor, torch.Tensor)
            and tensor.is_floating_point()
            and tensor.dtype is not torch.float32
        ):
            raise messages.error(
                "QUANTIZER_TORCH_PYTORCH_TRACE",
                f"{type(module).__name__} has {name!r} in {tensor.dtype}, but the quantizer takes "
                "torch.float32: give module.float(), and inputs in float32; "
                'torch.compile(backend="opendpu") takes the module as it is',
            )
