"""Names like one that is not there: those of other libraries, other spellings, and names of another module."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module

MIN_RATIO = 0.6  # of `difflib`, for names that are compared at all
MAX_COMPARED = 12
MIN_WORD = 4  # letters of a word that two names share
# Where to look for a name that its own module has not, by the text that a user writes after `ad.`.
PUBLIC_MODULES = ["", "nn", "nn.functional", "nn.utils", "nn.init", "optim", "optim.lr_scheduler", "data", "linalg"]
PUBLIC_MODULES += ["fft", "autograd", "func", "distributions", "special", "amp", "testing"]
# What is here, and after it what NumPy, TensorFlow, Keras and JAX call it; of several names the first that there is.
OTHER_NAMES = """
    sum: reduce_sum; mean: reduce_mean; amax: reduce_max; amin: reduce_min; prod: reduce_prod product; any: reduce_any
    sometrue; all: reduce_all alltrue; std: reduce_std; var: reduce_variance; logsumexp: reduce_logsumexp; unsqueeze:
    expand_dims; tensor: array convert_to_tensor constant Variable variable; detach: stop_gradient; to: cast astype
    as_type; clone: copy; randn: random_normal standard_normal; randn_like: normal_like; rand: random_uniform; rand
    uniform_: uniform; vmap: vectorize; compile: jit tf_function; grad_and_value: value_and_grad; cumprod: cumproduct;
    isin: in1d; rad2deg: degrees; deg2rad: radians; bucketize: digitize; nonzero: flatnonzero; bitwise_not: invert;
    movedim: rollaxis; vstack: row_stack; numpy: asnumpy to_numpy tostring; copy_: assign; add_: assign_add; sub_:
    assign_sub; fill_: fill; zero_: zero; requires_grad_: set_requires_grad; grad: gradient; shape: get_shape; cat:
    append; bmm: batch_matmul; normalize: l2_normalize; clamp: clip_by_value; clip_grad_norm_: clip_by_norm
    clip_by_global_norm global_norm; randperm: random_shuffle permutation; masked_select: boolean_mask; manual_seed:
    set_random_seed set_seed seed_all; Linear: Dense FullyConnected; Conv2d: Conv; BatchNorm1d: BatchNorm
    BatchNormalization; LayerNorm: LayerNormalization; GroupNorm: GroupNormalization; MaxPool1d: MaxPooling1D;
    MaxPool2d: MaxPooling2D; AvgPool2d: AveragePooling2D; AvgPool1d: AveragePooling1D; AdaptiveAvgPool2d:
    GlobalAveragePooling2D; ConvTranspose2d: Conv2DTranspose; CrossEntropyLoss: CategoricalCrossentropy
    SparseCategoricalCrossentropy; BCEWithLogitsLoss: BinaryCrossentropy; MSELoss: MeanSquaredError MSE L2Loss;
    L1Loss: MeanAbsoluteError MAE MAELoss; HuberLoss: Huber; cross_entropy: softmax_cross_entropy_with_logits
    sparse_softmax_cross_entropy_with_logits; binary_cross_entropy_with_logits: sigmoid_cross_entropy_with_logits;
    silu: swish; SiLU: Swish; SGD: GradientDescent GradientDescentOptimizer Momentum; Adam: AdamOptimizer;
    CosineAnnealingLR: CosineDecay; ExponentialLR: ExponentialDecay; MultiStepLR: PiecewiseConstantDecay; parameters:
    trainable_variables trainable_weights variables params get_parameters; state_dict: save_weights get_weights;
    load_state_dict: load_weights set_weights; zero_grad: zero_gradients clear_grad; step: apply_gradients minimize;
    eval: evaluate; forward: call
"""
NAMES_OF_OTHER_LIBRARIES = {
    other: meant.strip()
    for meant, _, others in (line.partition(":") for line in " ".join(OTHER_NAMES.split()).split(";"))
    for other in others.split()
}


class HintedText(str):
    """The text of an error, to which `find_hint()` is added where it is printed: it takes time, and few are printed."""

    __slots__ = ("find_hint", "hint")
    find_hint: Callable[[], str]
    hint: str

    def __str__(self) -> str:
        if not hasattr(self, "hint"):
            self.hint = ""
            with suppress(Exception):  # nothing may hide the error itself
                self.hint = self.find_hint()
        return f"{str.__str__(self)}{self.hint}"

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return str, (str(self),)


def missing_name_error(module: str, name: str, find_names: Callable[[], Iterable[str]]) -> AttributeError:
    """Return the error of a name that a module has not; it tells a similar one."""
    text = HintedText(f"module {module!r} has no attribute {name!r}")

    def find_hint() -> str:
        similar = find_similar_name(name, find_names(), find_elsewhere)
        return "" if similar is None else f". Did you mean: {similar!r}?"

    text.find_hint = find_hint
    return AttributeError(text, name=name)  # without `obj`: Python's own suggestion would come second


def find_similar_name(
    name: str, names: Iterable[str], elsewhere: Callable[[str], str | None] = lambda name: None
) -> str | None:
    """Return which of the names is meant by one that is not among them; `elsewhere` finds it in another place."""
    if name.startswith("_"):
        return None
    public = dict.fromkeys(each for each in names if not each.startswith("_"))
    meant = NAMES_OF_OTHER_LIBRARIES.get(name, "").split()
    found = next((each for each in meant if each in public), None) or elsewhere(name)
    found = found or next(filter(None, map(elsewhere, meant)), None)
    return found or find_spelling(name, public)


def find_spelling(name: str, names: Iterable[str]) -> str | None:
    """Return the name that is spelled most like another; None where none is near."""
    folded: dict[str, list[str]] = {}
    for each in names:
        folded.setdefault(_fold(each), []).append(each)
    wanted = _fold(name)
    if wanted in folded:
        return min(folded[wanted], key=lambda each: count_edits(name, each))
    near = get_close_matches(wanted, folded, MAX_COMPARED, MIN_RATIO)
    most = 1 if len(wanted) < 6 else 2 if len(wanted) < 11 else 3
    best = min(near, key=lambda each: (count_edits(wanted, each), each[:1] != wanted[:1]), default="")
    if not best or count_edits(wanted, best) > most:
        return None
    return min(folded[best], key=lambda each: count_edits(name, each))


def find_shared_word(name: str, names: Iterable[str]) -> str | None:
    """Return the name with the same words in another order, or the only one that shares a word with another.

    Or the one of which another is made of the first letters: `learning_rate` of `lr`.
    """
    words = {word for word in name.lower().split("_") if len(word) >= MIN_WORD}
    known = list(names)
    for each in known:
        if sorted(each.lower().split("_")) == sorted(name.lower().split("_")) and each != name:
            return each
        is_short = len(name) > 1 and name.lower() == _find_initials(each)
        if is_short or (len(each) > 1 and each.lower() == _find_initials(name)):
            return each
    sharing = [
        each
        for each in known
        if any(word in _fold(each) for word in words)
        or any(word in _fold(name) for word in each.lower().split("_") if len(word) >= MIN_WORD)
    ]
    return sharing[0] if len(sharing) == 1 and sharing[0] != name else None


def _find_initials(name: str) -> str:
    return "".join(word[:1] for word in name.lower().split("_"))


def find_elsewhere(name: str) -> str | None:
    """Return where else in the package a name is: `optim.Adam`."""
    for place in PUBLIC_MODULES:
        module = import_module(f"adjoint.{place}".rstrip("."))
        if name in dir(module) and hasattr(module, name):
            return f"{place}.{name}".lstrip(".")
    return None


def _fold(name: str) -> str:
    return name.replace("_", "").lower()


def count_edits(one: str, other: str) -> int:
    """Return how many letters to add, remove, replace or exchange with the next lead from one name to the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return row[-1]
