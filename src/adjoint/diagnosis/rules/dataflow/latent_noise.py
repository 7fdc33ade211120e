"""Rules on noise: of a latent space whose deviation is its variance, that is drawn once, and that a model never saw."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.events import Backward, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import DRAWS, FLOW_PASSES, Made

ERRORS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
SAME_DRAWS = 3  # passes with the same noise
MIN_NOISE = 8  # elements
MIN_SIGNAL = 1e-3  # the share of the data in what is noised
MAX_RATE = 0.5  # that a product of what is left has not as all of its factors


class LatentDeviation(WatchRule):
    """Noise times the exponential of what a divergence takes for the logarithm of the variance."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        behind = [made for root in backward.roots for made in flow.makers_behind(root)]
        exponentials = [made for made in behind if made.op == "exp"]
        self._check_logarithm(exponentials)
        for scaled in exponentials:
            products = [made for made in flow.users(scaled.out) if is_noise_product(made, scaled.out)]
            factors = [flow.maker_past_moves(x) for made in products for x in made.tensors if x is not scaled.out]
            if not any(made is None or made.op in DRAWS for made in factors):  # and not data, such as advantages
                continue
            source = flow.source(scaled.tensors[0])
            self._check_distribution(scaled)
            others = [
                each
                for each in exponentials
                if each is not scaled
                and flow.source(each.tensors[0]) is source
                and is_in_divergence(flow.users(each.out))
            ]
            own = is_in_divergence(flow.users(scaled.out)) and scaled
            divergence = others[0] if others else own or None
            if divergence is not None and is_in_divergence(flow.users(source)):
                where = divergence.place.site.describe_briefly()
                self.report(
                    "variance-as-deviation",
                    scaled.place,
                    "std",
                    f"noise {tuple(scaled.out.shape)} is multiplied by an exponential that the divergence at {where} "
                    "takes for the variance: the deviation is its root",
                    "std = torch.exp(0.5 * logvar)",
                    tuple(scaled.out.shape),
                )

    def _check_distribution(self, deviation: Made) -> None:
        """Look for noise that is never negative."""
        for product in self.facts.flow.users(deviation.out):
            for noise in product.tensors if is_noise_product(product, deviation.out) else ():
                made = self.facts.flow.maker_past_moves(noise)
                if (
                    made is not None
                    and made.op == "uniform"
                    and noise.array.size >= MIN_NOISE
                    and noise.array.min() >= 0
                ):
                    name = made.function
                    self.report(
                        "uniform-noise",
                        made.place,
                        name,
                        f"the noise {tuple(noise.shape)} that a deviation multiplies is uniform, of "
                        f"{noise.array.min():.3g} to {noise.array.max():.3g}: it is never negative, and moves the mean",
                        f"{name.replace('rand', 'randn')} in place of {name}",
                        tuple(noise.shape),
                    )
                    return

    def _check_logarithm(self, exponentials: list[Made]) -> None:
        """Look for noise that is multiplied by what the divergence takes the exponential of."""
        flow = self.facts.flow
        for each in exponentials:
            source = each.tensors[0]
            for made in flow.users(source):
                drawn = [flow.maker(x) for x in made.tensors if x is not source]
                if is_noise_product(made, source) and drawn[0] is not None and drawn[0].op in DRAWS:
                    where = each.place.site.describe_briefly()
                    self.report(
                        "variance-as-deviation",
                        made.place,
                        "std",
                        f"noise {tuple(made.out.shape)} is multiplied by the logarithm of which {where} takes the "
                        "exponential",
                        "std = torch.exp(0.5 * logvar)",
                        tuple(made.out.shape),
                    )
                    return


def is_noise_product(made: Made, deviation: Tensor) -> bool:
    """Return whether an op multiplies data, as noise is, by a deviation of the same shape."""
    others = [x for x in made.tensors if x is not deviation]
    return made.op == "mul" and len(others) == 1 and others[0].node is None and others[0].shape == deviation.shape


def is_in_divergence(users: list[Made]) -> bool:
    """Return whether a value is a term of a sum or difference."""
    return any(made.op in ("add", "sub") for made in users)


class RepeatedNoise(WatchRule):
    """Noise of a latent space that was drawn once, before the loop."""

    ops = frozenset({"mul", "add"})
    max_passes = 16

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.known: dict[int, tuple[Tensor, set[int], Place]] = {}
        self.products: dict[int, tuple[Tensor, Tensor, Place]] = {}  # noise times a deviation, in this pass

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if out.node is None or len(inputs) != 2:
            return
        if op.name == "add":
            self._check_sum(inputs)
            return
        for noise, deviation in (inputs, inputs[::-1]):
            if not (is_array(noise) and is_array(deviation)) or noise.node is not None or noise.array.size < MIN_NOISE:
                continue
            if noise.shape != deviation.shape or getattr(getattr(deviation.node, "op", None), "name", "") != "exp":
                continue
            self.products[id(out)] = out, noise, caller_place()

    def begin_backward(self, backward: Backward) -> None:
        self.products.clear()

    def _check_sum(self, inputs: Operands) -> None:
        for product, mean in (inputs, inputs[::-1]):
            if not isinstance(mean, Tensor) or mean.node is None or id(product) not in self.products:
                continue
            _, noise, where = self.products[id(product)]
            _, passes, place = self.known.setdefault(id(noise), (noise, set(), where))
            passes.add(self.facts.iteration)
            if len(passes) == SAME_DRAWS and noise.array.min() < 0 < noise.array.max():
                self.report(
                    "noise-repeats",
                    place,
                    "noise",
                    f"the noise {tuple(noise.shape)} is the same in {SAME_DRAWS} steps: it was drawn once, so the "
                    "model learns it by heart",
                    "draw it in each step: torch.randn_like(mu)",
                    SAME_DRAWS,
                )


def is_mixing(made: Made) -> bool:
    """Return whether an op adds or scales data, before a model sees it."""
    return made.op in ("mul", "add") and made.out.node is None


class UnseenNoise(WatchRule):
    """A prediction of noise that is compared with other noise than that which was added to the data."""

    max_passes = FLOW_PASSES

    def see_call(self, call: LibraryCall) -> None:
        target, flow = call.tensor("target"), self.facts.flow
        x = call.tensor("input")
        made = flow.maker(target)
        if call.name not in ERRORS or target is None or x is None or x.node is None:
            return
        if made is None or made.op not in DRAWS or [each for each in flow.users(target) if each.op in ("mul", "add")]:
            return
        mixed = [each for each in flow.makers_behind(x) if each.op == made.op and each.out.shape == target.shape]
        used = [each for each in mixed if any(is_mixing(user) for user in flow.users(each.out))]
        if used:
            where = max(used, key=lambda each: each.place.site.line).place.site.describe_briefly()
            self.report(
                "target-is-other-noise",
                call.place,
                "noise",
                f"the target of {call.name} is noise {tuple(target.shape)} that was drawn for it alone; the model got "
                f"data with that of {where}",
                "compare with the noise that was added",
                tuple(target.shape),
            )

    see_written_loss = see_call


class SharedNoise(WatchRule):
    """Noise that is drawn for one sample, and added to all of a batch."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            if made.op != "mul" or len(made.tensors) != 2 or made.out.array.ndim < 2:
                continue
            for noise, scale in (made.tensors, made.tensors[::-1]):
                drawn = flow.maker_past_moves(noise)
                is_one = noise.array.size * len(made.out.array) == made.out.array.size and len(made.out.array) > 1
                if drawn is None or drawn.op != "normal" or not is_one or noise.array.size < 2:
                    continue
                if scale.node is None and not (noise.array.ndim == scale.array.ndim > 1 and len(noise.array) == 1):
                    continue
                inputs = [x for each in flow.makers_behind(scale) for x in each.tensors if x.node is None]
                is_of_batch = any(len(x.array) == len(scale.array) for x in inputs if x.ndim > 1)
                if (scale.node is None and len(scale.array) == len(made.out.array)) or (
                    scale.shape == made.out.shape and is_of_batch
                ):
                    count = len(made.out.array)
                    problem = f"the noise {tuple(noise.shape)} is one vector for all {count} samples: they are moved "
                    problem += "alike, and the batch has one draw"
                    advice = "torch.randn_like of what it is multiplied by"
                    self.report("noise-of-one-sample", drawn.place, "noise", problem, advice, tuple(noise.shape))
                    return


class NoiseCoefficients(WatchRule):
    """Data and noise that are mixed by a product of rates and its rest, and not by their roots."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            products = [flow.maker(x) for x in made.tensors] if made.op == "add" and made.out.node is None else []
            factors = [
                x
                for each in products
                for x in (each.tensors if each is not None and each.op == "mul" else ())
                if x.array.size < made.out.array.size
            ]
            if len(products) != 2 or len(factors) != 2 or factors[0].shape != factors[1].shape:
                continue
            self._check_signal([each for each in products if each is not None], made)
            is_rest = abs(factors[0].array + factors[1].array - 1).max() < 1e-5
            drawn = [flow.maker(x) for each in products if each is not None for x in each.tensors]
            has_noise = any(each is not None and each.op in DRAWS for each in drawn)
            cumulated = any(each.op == "cumprod" for each in flow.makers_behind(*factors))
            if is_rest and has_noise and cumulated:
                problem = (
                    f"data and noise {tuple(made.out.shape)} are mixed by a and 1 - a: their variance is less than 1"
                )
                advice = "a.sqrt() * x + (1 - a).sqrt() * noise"
                self.report("noise-coefficients", made.place, "noise", problem, advice, tuple(made.out.shape))
                return

    def _check_signal(self, products: list[Made], out: Made) -> None:
        """Look for data times a cumulated product that is next to 0 throughout."""
        flow = self.facts.flow
        for made in products:
            small = next((x for x in made.tensors if x.array.size < out.out.array.size), None)
            sums = [each for each in flow.makers_behind(small) if each.op == "cumprod"] if small is not None else []
            other = next((flow.maker(x) for x in made.tensors if x is not small), None)
            if small is None or not sums or (other is not None and other.op in DRAWS):
                continue
            if float(np.median(small.array)) < MIN_SIGNAL and float(sums[0].tensors[0].array.max()) < MAX_RATE:
                low = float(np.median(small.array))
                problem = f"the data have a share of about {low:.2g} in what is noised: the product is of rates up to "
                problem += f"{float(sums[0].tensors[0].array.max()):.3g}, and falls to 0 at once"
                advice = "torch.cumprod(1 - betas, 0)"
                self.report("noise-coefficients", sums[0].place, "cumprod", problem, advice, f"{low:.2g}")


class SampleGradient(WatchRule):
    """A sample of a distribution whose parameters it has no gradient to, in a model that learns them."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        behind = [made for root in backward.roots for made in flow.makers_behind(root)]
        if any(made.function == "log_prob" for made in flow.steps.values()):
            return  # the sample is an action
        for made in behind:
            for x in made.tensors:
                source = flow.maker(x)
                if x.node is not None or source is None or source.function != "sample" or made.out.node is None:
                    continue
                if x.array.dtype.kind != "f" or np.isin(x.array, (0, 1)).all():
                    continue  # of classes, which have no gradient anyway
                operands = [each for below in flow.makers_behind(x) for each in below.tensors]
                parameters = [each for each in operands if each.node is not None]
                if parameters and made.function != "kl_divergence":
                    self.report(
                        "sample-without-gradient",
                        source.place,
                        "sample",
                        f"sample() {tuple(x.shape)} of a distribution has no gradient to its parameters, which the "
                        "loss is to change through it",
                        "rsample()",
                        tuple(x.shape),
                    )
                    return
