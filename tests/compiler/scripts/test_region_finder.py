"""Training regions in the syntax tree of a program."""

from __future__ import annotations

import ast
import textwrap

import pytest

from adjoint.compiler.scripts.region_finder import find_training_regions


def find(source: str) -> list[list[str]]:
    """The regions of a program, each as the texts of its statements."""
    regions = find_training_regions(ast.parse(textwrap.dedent(source)))
    return [[ast.unparse(statement) for statement in region.statements] for region in regions]


def test_loop_of_a_function() -> None:
    found = find("""
        def train(loader):
            for x, y in loader:
                opt.zero_grad()
                loss = f(model(x), y)
                loss.backward()
                total += loss.item()
                opt.step()
                print(loss.item())
    """)
    assert found == [[
        "opt.zero_grad()", "loss = f(model(x), y)", "loss.backward()", "total += loss.item()", "opt.step()",
    ]]  # fmt: skip


def indent(text: str) -> str:
    return textwrap.indent(text, "    ")


@pytest.mark.parametrize("barrier", ["def g():\n    return 1", "for y in x:\n    if y:\n        return y"])
def test_region_begins_behind_what_cannot_be_moved(barrier: str) -> None:
    assert find(f"def f(x):\n{indent(barrier)}\n    loss = g(x)\n    loss.backward()\n    opt.step()") == [
        ["loss = g(x)", "loss.backward()", "opt.step()"]
    ]


@pytest.mark.parametrize("leave", ["continue", "break", "return loss"])
def test_region_holds_what_leaves_it_early(leave: str) -> None:
    check = f"if bad(loss):\n    {leave}"
    lines = ["loss = f(x)", check, "loss.backward()", "opt.step()"]
    loop = "for x in loader:\n" + indent("\n".join(lines))
    assert find(f"def train(loader):\n{indent(loop)}") == [lines]


@pytest.mark.parametrize(("inner", "is_apart"), [("loss = g(x)\nreturn loss", True), ("return loss", False)])
def test_function_beside_the_region_has_names_of_its_own(inner: str, is_apart: bool) -> None:
    lines = ["loss = f(x)", "loss.backward()", "opt.step()"]
    program = "def f(x):\n" + indent("\n".join([*lines, "def closure():", *indent(inner).splitlines(), "use(closure)"]))
    assert find(program) == ([lines] if is_apart else [["opt.step()"]])


def test_update_that_leaves_the_block_is_behind_the_region() -> None:
    lines = ["loss = f(x)", "loss.backward()", "opt.step()"]
    evaluation = "if i % 50 == 0:\n    plan.step(evaluate())\n    if done():\n        break"
    assert find("for x in loader:\n" + indent("\n".join([*lines, evaluation])))[0] == lines


def test_branches_around_backward_belong_to_the_block_that_computes_the_loss() -> None:
    found = find("""
        for x in loader:
            with autocast():
                loss = f(x)
            if scaler:
                scaler.scale(loss).backward()
                scaler.step(opt)
            else:
                loss.backward()
                opt.step()
    """)
    assert len(found) == 1
    assert [text.split("\n")[0] for text in found[0]] == ["with autocast():", "if scaler:"]


def test_gradients_of_several_batches_and_the_update_are_two_regions() -> None:
    found = find("""
        while True:
            for micro in range(4):
                loss = model(X)
                X = get_batch()
                loss.backward()
            clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
            steps += 1
    """)
    assert found == [
        ["loss = model(X)", "loss.backward()"],  # the next batch is fetched behind
        ["clip_grad_norm_(model.parameters(), 1.0)", "opt.step()", "opt.zero_grad()"],
    ]


@pytest.mark.parametrize("statement", ["loss = X.sum()", "X = X + loss", "t = now()", "X.fill_(0)"])
def test_only_an_independent_fetch_of_what_was_read_is_moved(statement: str) -> None:
    (found,) = find(f"for i in r:\n    loss = model(X)\n    {statement}\n    loss.backward()\n    opt.step()")
    assert statement in found


@pytest.mark.parametrize(
    "source",
    [
        "for x in l:\n    yield x\n",
        "loss = f(x)\nloss.forward()",
        "@ad.compile\ndef step(x):\n    loss = f(x)\n    loss.backward()\n    opt.step()",
        "@torch.compile(mode='default')\ndef step(x):\n    loss = f(x)\n    loss.backward()",
        "async def f():\n    loss = g()\n    loss.backward()",
        "def f():\n    opt.step",
        "for epoch in range(9):\n    train()\n    while scheduler.step():\n        pass",
    ],
)
def test_no_region(source: str) -> None:
    assert find(source) == []


@pytest.mark.parametrize(
    "statement",
    ["loss = (yield x)", "eval('loss')", "loss = locals()", "del loss", "global loss"],
)
def test_statements_that_mean_something_else_in_another_function_stay(statement: str) -> None:
    found = find(f"def g(x):\n    a = f(x)\n    {statement}\n    loss = f(a)\n    loss.backward()\n    opt.step()")
    assert found == [["loss = f(a)", "loss.backward()", "opt.step()"]]


def test_names_that_other_functions_see_are_not_handed_out() -> None:
    assert find("def g(x):\n    show = lambda: loss\n    loss = f(x)\n    loss.backward()") == []
    assert find("def g(x):\n    loss = f(x)\n    h = lambda: loss\n    loss.backward()") == []
    shared = "    def h():\n        nonlocal loss\n        loss = 1\n"
    assert find(f"def g(x):\n{shared}    loss = f(x)\n    loss.backward()") == []


def test_names_that_other_functions_see_end_a_region() -> None:
    shared = "    def run():\n        nonlocal n\n        n += 1\n"
    step = "        loss = f(x)\n        loss.backward()\n        opt.step()\n"
    written = ["loss = f(x)", "loss.backward()", "opt.step()"]
    assert find(f"def g(n):\n{shared}{step}") == [written]
    assert find(f"def g(n):\n{shared}{step}        n = loss.item()\n        opt.zero_grad()") == [written]


def test_step_with_a_closure_is_compiled_in_the_closure() -> None:
    found = find("""
        for i in range(9):
            def closure():
                opt.zero_grad()
                loss = f(x)
                loss.backward()
                return loss
            opt.step(closure)
            sched.step()
    """)
    assert found == [["opt.zero_grad()", "loss = f(x)", "loss.backward()"], ["sched.step()"]]


def test_functional_steps() -> None:
    step = "    g, loss = gradient(w, x)\n    w = {k: w[k] - lr * v for k, v in g.items()}\n    print(loss)"
    found = [["g, loss = gradient(w, x)", "w = {k: w[k] - lr * v for k, v in g.items()}"]]
    assert find(f"gradient = vmap(grad_and_value(f))\nfor x in l:\n{step}") == found
    assert find(f"gradient = improve(f)\nfor x in l:\n{step}") == []
    assert find(f"def run(l, w):\n    gradient = torch.func.grad(f)\n    for x in l:\n{indent(step)}") == found
    assert find("for x in l:\n    g = grad(f)(w, x)\n    w = w - g") == [["g = grad(f)(w, x)", "w = w - g"]]
    assert find("def step(w, x):\n    g = grad(f)(w, x)\n    return w - g") == []


def test_functional_step_of_a_graph_that_was_recorded() -> None:
    found = find("""
        for x in loader:
            t = time()
            y = model(x)
            loss = f(y)
            g = torch.autograd.grad(loss, parameters)
            norm = sum(v.norm() for v in g)
            with torch.no_grad():
                for p, v in zip(parameters, g):
                    p -= lr * v / norm
            log(norm)
    """)
    assert [[text.split("\n")[0] for text in texts] for texts in found] == [[
        "y = model(x)", "loss = f(y)", "g = torch.autograd.grad(loss, parameters)",
        "norm = sum((v.norm() for v in g))", "with torch.no_grad():",
    ]]  # fmt: skip
    penalty = "y = torch.autograd.grad(d, x, create_graph=True)"
    (found,) = find(f"for x in l:\n    d = model(x)\n    {penalty}\n    loss = y + d\n    loss.backward()")
    assert found == ["d = model(x)", penalty, "loss = y + d", "loss.backward()"]


def test_backward_is_no_part_of_an_update() -> None:
    found = find("for x in l:\n    loss = f(x)\n    yield\n    opt.zero_grad()\n    loss.backward()\n    opt.step()")
    assert found == [["opt.zero_grad()", "loss.backward()", "opt.step()"]]


def test_names_that_a_handler_reads_are_not_handed_out() -> None:
    block = "try:\n    loss = f(x)\n    loss.backward()\nexcept E:\n    print({})"
    source = f"def g(x):\n{textwrap.indent(block, '    ')}"
    assert find(source.format("loss")) == [[block.format("loss")]]  # together with its handler
    assert find(source.format("x")) == [["loss = f(x)", "loss.backward()"]]


def test_private_names_of_a_class_stay() -> None:
    found = find("class A:\n    def g(self, x):\n        loss = self.__f(x)\n        loss.backward()")
    assert found == [["loss.backward()"]]


def test_parts_of_a_region_are_its_steps() -> None:
    lines = [
        "a = f(x)", "a.backward()", "b = g(x)", "b.backward()", "one.step()",
        "two.zero_grad()", "c = f(x)", "c.backward()", "two.step()", "show(c)",
    ]  # fmt: skip
    (region,) = find_training_regions(ast.parse(f"def train(x):\n{indent(chr(10).join(lines))}"))
    parts = [[ast.unparse(statement) for statement in part.statements] for part in region.parts]
    assert parts == [lines[:5], lines[5:9]]  # two passes for one step belong together
    assert [[*part.starts] for part in region.parts] == [[0, 1, 2], [5, 6, 7, 8]]
    (region,) = find_training_regions(ast.parse(f"def train(x):\n{indent(chr(10).join(lines[:5]))}"))
    assert not region.parts


def test_an_evaluation_every_some_steps_stands_apart() -> None:
    step = "loss = f(x)\nloss.backward()\nopt.step()"
    check = "steps += 1\ntotal += loss.item()\nevery = 30\nif steps % every == 0:\n    plan.step(evaluate())"
    loop = f"for x in loader:\n{indent(step)}\n{indent(check)}"
    assert find(f"def train(loader):\n{indent(loop)}")[0] == step.split("\n")
