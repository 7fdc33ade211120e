"""`adjoint.onnx.export`: a model as an ONNX file, under PyTorch's name and signature."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import IO

import numpy as np

from adjoint.core.runtime.pytree import flatten
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.interop.onnx.free_axes import Axes, read_dynamic_axes, read_dynamic_shapes
from adjoint.interop.onnx.merge_captures import MergedGraph
from adjoint.interop.onnx.modes import (
    OnnxExporterError,
    OnnxExporterWarning,
    OperatorExportTypes,
    TrainingMode,
    exporting,
    training_mode,
)
from adjoint.interop.onnx.onnx_program import ONNXProgram
from adjoint.interop.onnx.traces_of_sizes import capture_with_free_axes
from adjoint.nn.module.module import Module

DEFAULT_OPSET = 20
MIN_OPSET = 13  # from which on all nodes that are written exist
VERIFICATION_TOLERANCE = 1e-4  # relative and absolute


def export(
    model: Operand,
    args: Operand = (),
    f: str | os.PathLike[str] | IO[bytes] | None = None,
    *,
    kwargs: dict[str, Operand] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Operand = None,
    custom_translation_table: Mapping[Operand, Operand] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike[str] = ".",
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Mapping[str, Operand] | None = None,
    training: TrainingMode = TrainingMode.EVAL,
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: Operand = False,
    autograd_inlining: bool = True,
) -> ONNXProgram | None:
    """Return a model as an ONNX program, and write it to the file `f` if one is given.

    The model is traced with the example arguments, without values. Each op becomes a node of ONNX, or several;
    recurrent layers and interpolations become one node. Needs the package onnx: `pip install onnx`.

    Args:
        model: a module, or another function of tensors.
        args: the arguments, a tuple; or one tensor. A dict at its end has keyword arguments, unless `kwargs` is given.
            Tensors become inputs of the model, other values are fixed.
        f: path or binary file; None to write nothing. Default: None.
        kwargs: keyword arguments. Default: None.
        input_names, output_names: names for the inputs and outputs, in order. Names beyond the inputs go to the
            parameters. Default: the names of the parameters of `forward`, and "output".
        opset_version: version of ONNX's operators, 13 or newer. Default: 20.
        dynamo: False to return None, to export in the mode `training`, and to write one file. Default: True.
        external_data: True to write large weights to a second file beside `f`, named with ".data". Default: True.
        dynamic_shapes: free axes by argument: `{"x": {0: "batch"}}`, or a tuple for all arguments. Default: None.
        dynamic_axes: free axes by input name: `{"x": {0: "batch"}}` or `{"x": [0]}`. Default: None.
        verify: True to compare with the model by onnxruntime. Default: False.
        export_params: False to leave the weights out of the file. Default: True.
        keep_initializers_as_inputs: True to list the weights among the inputs. Default: False.
        training: mode of the export with `dynamo=False`; the model's own is restored. Default: TrainingMode.EVAL.
        do_constant_folding: False to keep what is computed from constants. Default: True.
        verbose, report, optimize, profile, dump_exported_program, artifacts_dir, operator_export_type, custom_opsets,
            export_modules_as_functions, autograd_inlining: taken for PyTorch's signature, and not used.

    Raises: OnnxExporterError, which names the op and the line, for what ONNX cannot express; ValueError for settings
    that do not fit the model; ImportError without the package onnx.
    """
    _require_onnx()
    if custom_translation_table or custom_opsets:
        raise NotImplementedError("torch.onnx.export: ops of other domains cannot be written: all are translated here")
    args = (args,) if isinstance(args, Tensor) else tuple(args)
    if not kwargs and args and isinstance(args[-1], dict):
        args, kwargs = args[:-1], args[-1]
    arguments = _name_arguments(model, args, kwargs or {})
    leaves, structure = flatten((args, dict(kwargs or {})))
    names = _name_inputs(arguments, [*(input_names or ())])
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    shapes = [tuple(x.shape) for x in tensors]
    of_outputs: dict[tuple[str, int], str] = {}
    if dynamic_shapes is not None and dynamo:
        free = read_dynamic_shapes(dynamic_shapes, arguments, names, shapes)
    elif dynamic_shapes:
        raise ValueError("The exporter only supports dynamic shapes through parameter dynamic_axes when dynamo=False.")
    else:
        free, of_outputs = read_dynamic_axes(dynamic_axes or {}, names, shapes, [*(output_names or ())])
    if dynamo and isinstance(model, Module) and model.training:
        warnings.warn(
            "Exporting a model while it is in training mode. Please ensure that this is intended, as it may lead to "
            "different behavior during inference. Calling model.eval() before export is recommended.",
            UserWarning,
            stacklevel=2,
        )
    with training_mode(model, TrainingMode.PRESERVE if dynamo else training), exporting():
        graph = capture_with_free_axes(model, leaves, structure, free)
    outputs = _name_outputs(graph, [*(output_names or ())])
    opset = DEFAULT_OPSET if opset_version is None else opset_version
    proto = _build(
        graph,
        _name_weights(model, [*(input_names or ())][len(names) :]),
        names,
        outputs,
        free,
        of_outputs,
        opset,
        do_constant_folding,
    )
    program = ONNXProgram(proto)
    if verify:
        _verify(program, model, args, kwargs or {})
    if f is not None:
        to_file = isinstance(f, (str, os.PathLike))
        program.save(
            f,
            include_initializers=export_params,
            external_data=external_data and dynamo and to_file,
            keep_initializers_as_inputs=keep_initializers_as_inputs or not (export_params or dynamo),
        )
    return program if dynamo else None


def _require_onnx() -> None:
    """Raise ImportError, in words, where the package is not installed."""
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise ImportError(
            "torch.onnx.export needs the package onnx, which writes the files: pip install onnx, or "
            "pip install adjoint[onnx]"
        ) from None


def _name_arguments(model: Operand, args: tuple[Operand, ...], kwargs: dict[str, Operand]) -> dict[str, Operand]:
    """Return the arguments by the names of the parameters that take them."""
    function: Callable[..., Operand] = model.forward if isinstance(model, Module) else model
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except ValueError:  # a function without a signature
        return {f"input_{i}": x for i, x in enumerate(args)} | kwargs
    except TypeError as error:
        raise TypeError(f"torch.onnx.export: the arguments do not fit the model: {error}") from None
    arguments: dict[str, Operand] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            stem = "input" if function.__module__.startswith("adjoint.") else name  # of layers made from functions
            arguments |= {f"{stem}_{i}" if len(value) > 1 else stem: x for i, x in enumerate(value)}
        else:
            arguments |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    in_call_order = [*list(arguments)[: len(args)], *(name for name in kwargs if name in arguments)]
    return {name: arguments[name] for name in in_call_order}


def _name_inputs(arguments: Mapping[str, Operand], given: list[str]) -> list[str]:
    """Return names for the tensors among the arguments: the given ones first."""
    names: list[str] = []
    for name, value in arguments.items():
        count = sum(isinstance(x, Tensor) for x in flatten(value)[0])
        names += [name] if count == 1 else [f"{name}_{i}" for i in range(count)]
    names = [*given[: len(names)], *names[len(given) :]]
    if len(set(names)) < len(names):
        raise ValueError(f"torch.onnx.export: two inputs have one name: {names}")
    return names


def _name_outputs(graph: MergedGraph, given: list[str]) -> list[str]:
    count = len(graph.outputs)
    if len(given) > count:
        raise RuntimeError(
            f"number of output names provided ({len(given)}) exceeded number of outputs ({count}): {given}"
        )
    default = ["output"] if count == 1 else [f"output_{i}" for i in range(count)]
    return [*given, *default[len(given) :]]


def _name_weights(model: Operand, given: list[str]) -> dict[int, str]:
    """Return the names of parameters and buffers by the tensors' identities; `given` names come first, in order."""
    if not isinstance(model, Module):
        return {}
    named = [*model.named_parameters(), *model.named_buffers()]
    return {id(x): given[i] if i < len(given) else name for i, (name, x) in reversed([*enumerate(named)])}


def _build(
    graph: MergedGraph,
    weights: dict[int, str],
    input_names: list[str],
    output_names: list[str],
    free: Axes,
    of_outputs: dict[tuple[str, int], str],
    opset: int,
    fold: bool,
) -> Operand:
    """Return the protobuf in the wanted opset; in the oldest possible one, with a warning, where that is too old."""
    from onnx import checker, defs

    from adjoint.interop.onnx.build_model import build_model

    newest = defs.onnx_opset_version()
    if opset > newest:
        raise ValueError(f"opset_version {opset} is unknown to the installed package onnx, which has 1 to {newest}")
    if opset < MIN_OPSET:
        warnings.warn(
            f"opset_version {opset} has not all operators that are needed: the model is written with {MIN_OPSET}",
            OnnxExporterWarning,
            stacklevel=3,
        )
        opset = MIN_OPSET
    proto = build_model(graph, weights, input_names, output_names, free, of_outputs, opset, fold)
    if sum(len(x.raw_data) for x in proto.graph.initializer) < 2**30:
        try:
            checker.check_model(proto)
        except checker.ValidationError as error:
            raise OnnxExporterError(
                f"torch.onnx.export: opset {opset} cannot express the model; try opset_version={newest}: {error}"
            ) from None
    return proto


def _verify(program: ONNXProgram, model: Operand, args: tuple[Operand, ...], kwargs: dict[str, Operand]) -> None:
    """Raise OnnxExporterError if onnxruntime computes something else than the model."""
    expected = [x for x in flatten(model(*args, **kwargs))[0] if isinstance(x, Tensor)]
    for i, (ours, theirs) in enumerate(zip(expected, program(*args, **kwargs), strict=True)):
        a, b = ours.detach().numpy(), theirs.numpy()
        if not np.allclose(a, b, VERIFICATION_TOLERANCE, VERIFICATION_TOLERANCE, equal_nan=True):
            distance = float(np.abs(a - b).max())
            raise OnnxExporterError(f"torch.onnx.export: output {i} differs by up to {distance:.3g} in onnxruntime")
