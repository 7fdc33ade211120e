"""The exported model: its protobuf, saved with or without its weights, and run for comparison."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from adjoint.core.runtime.pytree import flatten
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Operand
from adjoint.interop.onnx.modes import OnnxExporterError

MIN_EXTERNAL_BYTES = 256  # of weights that are stored beside the file
MAX_FILE_BYTES = 2**31 - 2**20  # of a protobuf, with room for the graph


class ONNXProgram:
    """Model as ONNX, as `adjoint.onnx.export` returns it: `save` writes it, a call runs it with onnxruntime.

    `model_proto` is the `onnx.ModelProto`.
    """

    def __init__(self, model_proto: Operand) -> None:
        self.model_proto = model_proto
        self._session: Operand = None

    @property
    def model(self) -> Operand:
        """The `onnx.ModelProto`."""
        return self.model_proto

    def __repr__(self) -> str:
        from onnx import printer

        return f"ONNXProgram(\n{printer.to_text(self.model_proto.graph)}\n)"

    def save(
        self,
        destination: str | os.PathLike[str] | IO[bytes],
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Write the model to a path or a binary file.

        `external_data`: weights go into a second file, of this name and ".data", as they do when the model is larger
        than a protobuf can be. `include_initializers=False` leaves them out. `keep_initializers_as_inputs` lists them
        among the inputs, so that callers may give others.
        """
        import onnx

        proto = onnx.ModelProto()
        proto.CopyFrom(self.model_proto)
        weights = list(proto.graph.initializer)
        if keep_initializers_as_inputs:
            proto.graph.input.extend(
                onnx.helper.make_tensor_value_info(x.name, x.data_type, list(x.dims)) for x in weights
            )
        if not include_initializers:
            del proto.graph.initializer[:]
        if not isinstance(destination, (str, os.PathLike)):
            destination.write(proto.SerializeToString())
            return
        path = Path(destination)
        size = sum(len(x.raw_data) for x in proto.graph.initializer)
        if external_data or size > MAX_FILE_BYTES:
            beside = path.with_name(f"{path.name}.data")
            beside.unlink(missing_ok=True)
            onnx.save_model(
                proto,
                str(path),
                save_as_external_data=True,
                all_tensors_to_one_file=True,
                location=beside.name,
                size_threshold=MIN_EXTERNAL_BYTES,
            )
        else:
            onnx.save_model(proto, str(path))

    def apply_weights(self, state_dict: Mapping[str, Tensor]) -> None:
        """Replace weights by those of a state dict, which have the same names."""
        from onnx import numpy_helper

        for weight in self.model_proto.graph.initializer:
            if weight.name in state_dict:
                array = np.ascontiguousarray(state_dict[weight.name].detach().numpy())
                weight.CopyFrom(numpy_helper.from_array(array, weight.name))
        self._session = None

    def initialize_inference_session(self, initializer: Operand = None) -> None:
        """Prepare onnxruntime, which the first call does else; `initializer` makes a session of the bytes."""
        if initializer is None:
            try:
                import onnxruntime
            except ImportError:
                raise OnnxExporterError("an exported model is run by onnxruntime: pip install onnxruntime") from None
            initializer = onnxruntime.InferenceSession
        self._session = initializer(self.model_proto.SerializeToString())

    def release(self) -> None:
        """Forget the session of onnxruntime."""
        self._session = None

    def __call__(self, *args: Operand, **kwargs: Operand) -> tuple[Tensor, ...]:
        """Return the outputs that onnxruntime computes."""
        if self._session is None:
            self.initialize_inference_session()
        outputs: Sequence[Operand] = self._session.run(None, self._name_inputs(args, kwargs))
        return tuple(map(wrap, outputs))

    def call_reference(self, *args: Operand, **kwargs: Operand) -> tuple[Tensor, ...]:
        """Return the outputs that the reference evaluator of the package onnx computes."""
        from onnx.reference import ReferenceEvaluator

        outputs: Operand = ReferenceEvaluator(self.model_proto).run(None, self._name_inputs(args, kwargs))
        return tuple(map(wrap, outputs))

    def _name_inputs(self, args: tuple[Operand, ...], kwargs: dict[str, Operand]) -> dict[str, Operand]:
        leaves, _ = flatten((args, kwargs))
        arrays = [x.detach().numpy() for x in leaves if isinstance(x, Tensor)]
        return dict(zip((x.name for x in self.model_proto.graph.input), arrays, strict=True))
