"""`__torch_function__`: subclasses of Tensor keep their class, answer in place of functions; modes see all calls."""

from __future__ import annotations

import textwrap

import pytest
from tests.support.scripts import output_of


def run(program: str) -> str:
    """What the program prints: it runs in a process of its own, since public functions are replaced from then on."""
    lead = "import adjoint as ad\nimport adjoint.nn.functional as F\nfrom adjoint import nn\n"
    return output_of(lead + textwrap.dedent(program))


SUB = """
class Sub(ad.Tensor):
    pass

x = ad.ones(2, 3).as_subclass(Sub)
name = lambda v: type(v).__name__
"""


@pytest.mark.needs_processes
@pytest.mark.parametrize(
    "made",
    [
        "[x + 1, 1 + x, 2 / x, 3 - x, x @ x.t(), -x, 2**x, x == 1, x[0], abs(x), x.T, x.data, x.clone(), x.view(-1)]",
        "[ad.add(x, 1), ad.cat([x, x]), ad.sin(x), F.relu(x), ad.linalg.norm(x), F.softmax(x, 0), ad.ones_like(x)]",
        "[*x.max(0), *x.split(1), *ad.topk(x, 2), *x, ad.ones(2, 3) + x, ad.ones(2, 3) @ x.t(), x.add_(1)]",
        "[nn.Linear(3, 2)(x), nn.ReLU()(x), x.float(), x.detach(), x.new_zeros(2)]",
    ],
)
def test_results_are_of_the_subclass(made: str) -> None:
    assert run(f"{SUB}\nprint({{name(v) for v in {made}}})") == "{'Sub'}"


@pytest.mark.needs_processes
def test_numbers_stand_on_the_left_of_every_operator() -> None:
    program = """
    y = ad.tensor([3, 5]).as_subclass(Sub)
    print(*[eval(f"7 {sign} y").tolist() == eval(f"7 {sign} ad.tensor([3, 5])").tolist()
            for sign in "+ - * / // % ** & | ^ << >>".split()])
    with ad.overrides.TorchFunctionMode():
        print((7 / ad.tensor([2.0, 4.0])).tolist(), (7 - ad.tensor([2.0])).tolist(), (7 + ad.tensor([2.0])).tolist())
    """
    expected = " ".join(["True"] * 12) + "\n[3.5, 1.75] [5.0] [9.0]"
    assert run(SUB + textwrap.dedent(program)) == expected


@pytest.mark.needs_processes
def test_it_prints_under_its_name_and_gradients_are_plain() -> None:
    program = """
    w = ad.ones(2, requires_grad=True)
    (w.as_subclass(Sub) * 2).sum().backward()
    print(name(w.grad), x[0], name(nn.Parameter(ad.ones(2)) + 1))
    """
    assert run(SUB + textwrap.dedent(program)) == "Tensor Sub([1., 1., 1.]) Tensor"


@pytest.mark.needs_processes
def test_the_answer_is_asked_with_the_public_function() -> None:
    program = """
    calls = []

    class Log(ad.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    x = ad.ones(2, 3).as_subclass(Log)
    a = (x + 1) * 2
    ad.cat([a, a]), F.relu(a), a[0], 1 - x, x / 2, x.mean(), x.shape
    print(*calls)
    """
    assert run(program) == "add mul cat relu __getitem__ __rsub__ div mean __get__"


@pytest.mark.needs_processes
def test_tables_of_functions() -> None:
    program = """
    handled = {}

    class H(ad.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func in handled:
                return handled[func](*args, **(kwargs or {}))
            return super().__torch_function__(func, types, args, kwargs)

    handled.update({ad.mean: lambda x: "mean", ad.Tensor.sum: lambda x: "sum", F.relu: lambda x: "relu"})
    h = ad.ones(2).as_subclass(H)
    print(ad.mean(h), h.sum(), F.relu(h), h.mean())
    """
    assert run(program) == "mean sum relu H(1.)"


@pytest.mark.needs_processes
def test_a_subclass_may_decline() -> None:
    program = """
    class Off(ad.Tensor):
        __torch_function__ = ad._C._disabled_torch_function_impl

    class No(ad.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    print(type(ad.ones(2).as_subclass(Off) * 2).__name__)
    try:
        ad.sin(ad.ones(2).as_subclass(No))
    except TypeError as error:
        print(str(error).splitlines()[0])
    """
    assert run("import adjoint._C\n" + textwrap.dedent(program)) == (
        "Tensor\nMultiple dispatch failed for 'adjoint.sin'; all __torch_function__ handlers returned NotImplemented:"
    )


@pytest.mark.needs_processes
def test_blocks_in_which_nobody_is_asked() -> None:
    program = SUB + "import adjoint._C\nwith ad._C.DisableTorchFunctionSubclass():\n    print(name(x + 1))"
    assert run(program) == "Tensor"


@pytest.mark.needs_processes
def test_modes_see_calls_and_may_change_them() -> None:
    program = """
    from adjoint.overrides import TorchFunctionMode

    class Zero(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.calls = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.calls.append(func.__name__)
            return ad.zeros(1) if func is ad.sin else func(*args, **(kwargs or {}))

    with Zero() as zero:
        a = ad.sin(ad.ones(2)) + 1
        with Zero() as inner:
            a = a * 3
    print(*zero.calls, *inner.calls, a, ad.cos(ad.zeros(1)) + 1, len(zero.calls))
    """
    assert run(program) == "ones sin add mul mul tensor([3.]) tensor([2.]) 4"


@pytest.mark.needs_processes
def test_without_a_subclass_nothing_is_replaced() -> None:
    assert run("import types; nn.Parameter(ad.ones(1)); print(type(ad.sin) is types.FunctionType)") == "True"


@pytest.mark.needs_processes
def test_a_subclass_may_use_the_names_of_slots() -> None:
    program = """
    class Named(ad.Tensor):
        @property
        def array(self):
            return "mine"

        @array.setter
        def array(self, value):
            raise AssertionError(value)

    x = ad.ones(2).as_subclass(Named)
    x += 1
    print((x * 2).sum().item(), x.array, x.shape)
    """
    assert run(program) == "8.0 mine adjoint.Size([2])"


@pytest.mark.needs_processes
def test_functions_keep_their_defaults() -> None:
    script = """
        class Asked(ad.Tensor):
            pass

        from adjoint.core.tensor.torch_function import DispatchedFunction

        assert isinstance(ad.meshgrid, DispatchedFunction)
        assert "indexing" in ad.meshgrid.__kwdefaults__
        """
    assert run(script) == ""


@pytest.mark.needs_processes
def test_warnings_point_at_the_program_where_there_is_a_subclass() -> None:
    program = """
    import warnings

    class Mine(ad.Tensor):
        pass

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ad.nn.functional.kl_div(ad.zeros(2), ad.zeros(2))
        ad.cov(ad.ones(2, 1))
        ad.sum(ad.ones(2, requires_grad=True) * 2).grad
    told = [w for w in told if w.category is UserWarning]
    print({w.filename for w in told}, len(told))
    """
    assert run(program) == "{'<string>'} 3"
