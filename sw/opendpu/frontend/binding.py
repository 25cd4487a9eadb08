# SPDX-License-Identifier: Apache-2.0
"""Sizes of a model's inputs, free ones and others than it fixes, and inputs that are constants."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.input_values import OPTION, Values, declared_shape, filled, named_values
from opendpu.frontend.single_node import is_native
from opendpu.ir import Array, TensorType
from opendpu_arch.errors import DPUError, ModelFormatError, UnsupportedError

Sizes = Mapping[str, Sequence[int] | int]
"""By input, its shape, in which -1 stands for the model's own size; or by name of a dimension, its
size. ``""`` stands for the only input."""
OPEN = -1
"""In a given shape: what the model says, and 1 for a batch that it leaves open."""


class OpenSizesError(UnsupportedError):
    """Inputs have sizes that nobody has given; interfaces say in their own words how to.

    Parameters
    ----------
    what
        Which inputs these are, in words.
    examples
        Shapes that they may have, by name.
    """

    def __init__(self, what: str, examples: Mapping[str, Sequence[int]]) -> None:
        given = (f"--input-shape {name}={','.join(map(str, s))}" for name, s in examples.items())
        super().__init__(f"{what}\nGive their sizes, for example: {' '.join(given)}")
        self.what, self.examples = what, examples


@contextlib.contextmanager
def asking(said: Callable[[OpenSizesError], DPUError]) -> Iterator[None]:
    """Let an error about open sizes become the one that an interface says it with."""
    try:
        yield
    except OpenSizesError as error:
        raise said(error) from None


@dataclasses.dataclass(frozen=True)
class _Input:
    """What a file says about an input; a dimension is a size, a name, or ``?``."""

    name: str
    dtype: np.dtype[np.generic]
    dims: tuple[int | str, ...] | None

    def __str__(self) -> str:
        return f"{self.name}: {'no shape at all' if self.dims is None else self.wanted}"

    @property
    def wanted(self) -> str:
        """The shapes that it may have, in words."""
        return "any shape" if self.dims is None else f"[{', '.join(map(str, self.dims))}]"

    def is_resized(self, shape: Sequence[int]) -> bool:
        """Return whether a shape of the same rank has other sizes than the file fixes."""
        own = self.dims if self.dims is not None else shape
        return any(isinstance(d, int) and d != s for d, s in zip(own, shape, strict=True))


@dataclasses.dataclass(frozen=True)
class Bound:
    """The types of a model's inputs, by name, and what the user gives instead of its own sizes."""

    types: dict[str, TensorType]
    resized: tuple[str, ...] = ()
    """A phrase for every input whose shape is not the one that the model fixes."""
    fixed: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    """Inputs of the file that are constants, which the user gives; they are not in ``types``."""

    @contextlib.contextmanager
    def checked(self) -> Iterator[None]:
        """Say, where a model is refused in here, that it may be because of the new sizes."""
        try:
            yield
        except (ModelFormatError, UnsupportedError) as error:
            if not self.resized:
                raise
            raise UnsupportedError(
                f"with option 'input_shape', which gives {' and '.join(self.resized)}: {error}",
                code="XCOM_SIZE_UNMATCH",
            ) from None

    def check_batch(
        self, label: str, name: str, own: Sequence[int | str], made: Sequence[int]
    ) -> None:
        """Refuse new sizes that a reshape of fixed lengths turns into a larger batch.

        ``own`` is the shape of an output that the model declares, ``made`` the one that follows
        from the inputs.

        Raises
        ------
        ModelFormatError
            The output had the batch of the inputs, and has another one now.
        """
        batches = {kind.shape[0] for kind in self.types.values() if kind.shape}
        if not self.resized or len(batches) != 1 or len(own) != len(made) or not made:
            return
        if own[0] == 1 and batches == {1} and made[0] != 1:
            raise ModelFormatError(
                f"{label}: output {name!r} is {list(made)} instead of {list(own)}: a Reshape of "
                "fixed lengths makes several samples of one"
            )


def bind_inputs(
    label: str,
    items: Sequence[onnx.ValueInfoProto],
    sizes: Sizes,
    values: Values | None = None,
    constants: Sequence[str] = (),
) -> Bound:
    """Return the type of every input, with the sizes and the constants that the user gives.

    A free first dimension that nobody gives becomes 1. ``label`` is the model's name in messages;
    ``constants`` are inputs that have a value in the model, and are not among ``items``.
    What follows from sizes other than the model's is for the caller to find out, see
    :meth:`Bound.checked`.

    Raises
    ------
    ModelFormatError
        An input is given twice.
    UnsupportedError
        An input is no tensor of numbers, free dimensions are left, or a size or value does not
        fit.
    """
    inputs = [_declared(label, item) for item in items]
    names = [item.name for item in inputs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ModelFormatError(f"{label} has two inputs {twice!r}")
    listed = "; ".join(map(str, inputs))
    given = named_values(values or {}, names, listed, constants)
    if given and len(given) == len(inputs):
        raise UnsupportedError(
            f"{label}: {OPTION} has all inputs, and leaves nothing to compute: {listed}"
        )
    own = {
        item.name: shape
        for item in inputs
        if item.name in given
        and (shape := declared_shape(item.name, given[item.name], item.dims)) is not None
    }
    shapes, symbols = _sorted_out(label, inputs, {**own, **sizes})
    differing = _take_symbols(label, inputs, shapes, symbols)
    made = {item.name: _bound(item, shapes.get(item.name), symbols) for item in inputs}
    if any(shape is None for shape in made.values()):
        raise _question(label, inputs)
    types = {
        item.name: TensorType(shape, item.dtype)
        for item in inputs
        if (shape := made[item.name]) is not None
    }
    fixed = {name: filled(name, value, types.pop(name)) for name, value in given.items()}
    resized = [
        f"{list(types[item.name].shape)} for input {item.name!r}, where the model has {item.wanted}"
        for item in inputs
        if item.name in types and item.is_resized(types[item.name].shape)
    ]
    return Bound(types, (*resized, *differing), fixed)


def _declared(label: str, item: onnx.ValueInfoProto) -> _Input:
    kind = item.type.WhichOneof("value")
    tensor = item.type.tensor_type
    known = kind == "tensor_type" and tensor.elem_type in helper.get_all_tensor_dtypes()
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type) if known else np.dtype(object)
    if not is_native(dtype):
        found = "no type" if kind is None else kind.removesuffix("_type")
        if known:
            found = onnx.TensorProto.DataType.Name(tensor.elem_type)
        raise UnsupportedError(
            f"{label}: input {item.name!r} is of {found}, but must be a tensor of integers, "
            "floats or bools"
        )
    if not tensor.HasField("shape"):
        return _Input(item.name, dtype, None)
    dims = [
        dim.dim_value if dim.dim_value > 0 else dim.dim_param or "?" for dim in tensor.shape.dim
    ]
    return _Input(item.name, dtype, tuple(dims))


def _sorted_out(
    label: str, inputs: Sequence[_Input], sizes: Sizes
) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """Return the shapes by input and the sizes by name of a dimension that the user gives."""
    known = {item.name: item for item in inputs}
    free = {dim for item in inputs for dim in item.dims or () if isinstance(dim, str)} - {"?"}
    shapes: dict[str, tuple[int, ...]] = {}
    symbols: dict[str, int] = {}
    for key, given in sizes.items():
        shape = (given,) if isinstance(given, int) else tuple(int(size) for size in given)
        name = inputs[0].name if not key and len(inputs) == 1 else key
        if name in known:
            dims = known[name].dims
            shape = _with_own_sizes(shape, dims)
            fits = dims is None or (
                len(dims) == len(shape)
                and all(isinstance(d, str) or s > 0 for d, s in zip(dims, shape, strict=True))
            )
            if not fits or min(shape, default=0) < 0:
                raise UnsupportedError(
                    f"option 'input_shape' gives {list(shape)} for input {name!r}, "
                    f"but the model has {known[name].wanted}",
                    code="XCOM_SIZE_UNMATCH",
                )
            shapes[name] = shape
        elif name in free and len(shape) == 1 and shape[0] > 0:
            symbols[name] = shape[0]
        else:
            what = f"input {key!r}" if key else "one shape without a name"
            raise UnsupportedError(
                f"option 'input_shape' has {what}, but the inputs are: "
                f"{'; '.join(map(str, inputs)) or 'none'}",
                code="XCOM_ITEM_UNDEFINED",
            )
    return shapes, symbols


def _with_own_sizes(shape: tuple[int, ...], dims: tuple[int | str, ...] | None) -> tuple[int, ...]:
    """Return a given shape with the model's sizes where it leaves them to the model."""
    own = dims if dims is not None and len(dims) == len(shape) else ("?",) * len(shape)
    sizes = []
    for axis, (given, size) in enumerate(zip(shape, own, strict=True)):
        if given == OPEN and isinstance(size, int):
            given = size
        elif given == OPEN and axis == 0:
            given = 1
        sizes.append(given)
    return tuple(sizes)


def _take_symbols(
    label: str, inputs: Sequence[_Input], shapes: Mapping[str, tuple[int, ...]],
    symbols: dict[str, int],
) -> list[str]:  # fmt: skip
    """Let given shapes say what the names in them stand for, for other inputs.

    Some exporters give one name to dimensions that differ, and onnxruntime does not mind. Where
    all shapes with such a name are given, they count; return a phrase for each name.
    """
    named = set(symbols)
    asked = {dim for item in inputs if item.name not in shapes for dim in item.dims or ()}
    differing: dict[str, str] = {}
    for item in inputs:
        for dim, size in zip(item.dims or (), shapes.get(item.name, ()), strict=False):
            if not isinstance(dim, str) or dim == "?" or symbols.setdefault(dim, size) == size:
                continue
            found = f"dimension {dim!r} would be {symbols[dim]} and {size} (input {item.name!r})"
            if dim in asked | named:
                raise UnsupportedError(
                    f"{label}: {found}, but has one size", code="XCOM_SIZE_UNMATCH"
                )
            differing[dim] = f"{symbols[dim]} and {size} for dimension {dim!r}"
    return list(differing.values())


def _bound(
    item: _Input, shape: tuple[int, ...] | None, symbols: Mapping[str, int]
) -> tuple[int, ...] | None:
    if shape is not None or item.dims is None:
        return shape
    found = [symbols.get(dim, dim) if isinstance(dim, str) else dim for dim in item.dims]
    if found and isinstance(found[0], str):
        found[0] = 1
    sizes = tuple(dim for dim in found if isinstance(dim, int))
    return sizes if len(sizes) == len(found) else None


_USUAL_SIDE, _USUAL_LENGTH = 224, 128
"""Sizes of an example: of rows and columns of images, of anything else."""
_CHANNELS = (1, 3, 4)
"""Of images; a last axis of these says that channels are there."""


def _question(label: str, inputs: Sequence[_Input]) -> OpenSizesError:
    """Return the error that asks for sizes, with examples."""
    examples = {}
    for item in inputs:
        dims = item.dims if item.dims is not None else ("?",) * 4
        if any(isinstance(dim, str) for dim in dims[1:]) or item.dims is None:
            examples[item.name] = _example(dims)
    listed = "\n  ".join(map(str, inputs))
    return OpenSizesError(
        f"{label} has inputs with free dimensions; only a first one, the batch, becomes 1 by "
        f"itself:\n  {listed}",
        examples,
    )


def _example(dims: Sequence[int | str]) -> list[int]:
    """Return sizes that an input may have: those that are known, and usual ones."""
    side = _USUAL_SIDE if len(dims) == 4 else _USUAL_LENGTH
    sizes = [dim if isinstance(dim, int) else side for dim in dims]
    sizes[0] = dims[0] if isinstance(dims[0], int) else 1
    if len(dims) == 4 and isinstance(dims[1], str) and dims[3] not in _CHANNELS:
        sizes[1] = 3
    return sizes
