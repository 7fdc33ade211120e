"""PyTorch's addresses of what lies elsewhere here, and those of its parts that are not here, with the reason."""

from __future__ import annotations

from adjoint.core.elsewhere import place

_FUNCTORCH = "adjoint.func adjoint.func.stateless"
ELSEWHERE = {
    "_custom_ops": "adjoint.library",
    "_functorch": _FUNCTORCH,
    "_functorch.apis": _FUNCTORCH,
    "_functorch.eager_transforms": _FUNCTORCH,
    "_functorch.functional_call": _FUNCTORCH,
    "_functorch.make_functional": _FUNCTORCH,
    "_functorch.vmap": _FUNCTORCH,
    "_higher_order_ops": "adjoint.func.scan",
    "_higher_order_ops.associative_scan": "adjoint.func.scan",
    "_jit_internal": "adjoint.jit",
    "_tensor": "adjoint.core.tensor adjoint._utils",
    "_tensor_str": "adjoint.core.printing PRINT_OPTS=options _tensor_str=format_tensor",
    "functional": "adjoint",
    "return_types": "adjoint.functions.return_types",
    "storage": "adjoint.functions.storages adjoint._utils",
}
_QUANTISED = "there are no quantised numbers"
ABSENT = {
    "_inductor": "adjoint.compile makes native code by itself",
    "_subclasses": "there are no fake tensors: those of the device 'meta' have shapes and types without values",
    "ao": _QUANTISED,
    "export": "programs are not exported: keep the module's code, and save its state_dict",
    "fx": "modules are not traced into graphs of PyTorch's kind: adjoint.compile traces whole steps",
    "masked": "there are no masked tensors: see where() and masked_fill()",
    "monitor": "nothing is counted",
    "nested": "there are no nested tensors: see nn.utils.rnn for sequences of several lengths",
    "onnx": "ONNX files are not written",
    "package": "programs are not packed into files",
    "quantization": _QUANTISED,
    "sparse": "there are no sparse tensors",
}

_PARTS = {
    "_subclasses": "fake_tensor",
    "ao": "nn nn.quantized quantization",
    "fx": "experimental experimental.symbolic_shapes graph graph_module node passes proxy",
    "onnx": "symbolic_helper symbolic_opset9 symbolic_opset11 utils",
}
ABSENT |= {f"{whole}.{part}": ABSENT[whole] for whole, parts in _PARTS.items() for part in parts.split()}

place("adjoint", ELSEWHERE, ABSENT)
