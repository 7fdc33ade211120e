"""Tables of vectors."""

from __future__ import annotations

from typing import Any, Self

from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike
from adjoint.functions.creation.creation import empty
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


class EmbeddingTable(Module):
    """Table of `num_embeddings` rows, one of which may be for padding: the base of `Embedding` and `EmbeddingBag`."""

    weight: Parameter
    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool

    def _init_weight(self, given: Tensor | None, trained: bool, device: DeviceLike, dtype: DtypeLike) -> None:
        """Take the given table, or draw one. Raises AssertionError if it has another shape."""
        shape = (self.num_embeddings, self.embedding_dim)
        if given is None:
            self.weight = Parameter(empty(*shape, dtype=dtype, device=device), requires_grad=trained)
            self.reset_parameters()
        else:
            if tuple(given.shape) != shape:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(given, requires_grad=trained)

    def reset_parameters(self) -> None:
        """Draw new values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with ModeScope(recording=False):
                self.weight[self.padding_idx] = 0

    def _format_non_defaults(self, **defaults: Any) -> str:
        """Return the settings that differ from the defaults."""
        given = {name: getattr(self, name) for name in defaults}
        return "".join(f", {name}={value!r}" for name, value in given.items() if value != defaults[name])


def _normalize_padding_idx(padding_idx: int | None, rows: int, name: str) -> int | None:
    """Return the row for padding, from the front. Raises AssertionError if there is no such row."""
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise AssertionError(f"{name} must be within num_embeddings")
    return padding_idx % rows


def _check_table_shape(embeddings: Tensor) -> tuple[int, int]:
    if embeddings.ndim != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
    rows, columns = embeddings.shape
    return rows, columns


class Embedding(EmbeddingTable):
    """Embedding layer: a table of vectors, looked up by integer indices.

    The initial rows are standard normal.

    Args:
        num_embeddings: number of rows, V.
        embedding_dim: size of each row, D.
        padding_idx: row that starts as zeros and gets no gradient. Default: None.
        max_norm: norm to which a lookup shortens longer rows in place. Default: None, no limit.
        norm_type: the p of that norm. Default: 2.
        scale_grad_by_freq: True to divide each row's gradient by its lookups in the batch. Default: False.
        sparse: True for a sparse gradient, of the rows that were looked up. Default: False.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Attributes:
        weight: Parameter, the table, shape (V, D).

    Shapes:
        input (…), integers in [0, V) -> (…, D)

    Raises: AssertionError for a `padding_idx` outside the table, IndexError in a call for an index outside it.

    Example:
        >>> table = nn.Embedding(10, 3, padding_idx=0)
        >>> table(ad.tensor([[1, 2], [0, 5]])).shape
        adjoint.Size([2, 2, 3])
        >>> table.weight[0].tolist()
        [0.0, 0.0, 0.0]
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
        _freeze: bool = False, device: DeviceLike = None, dtype: DtypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _normalize_padding_idx(padding_idx, num_embeddings, "Padding_idx")
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._init_weight(_weight, not _freeze, device, dtype)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """Return a table with these rows (V, D), which are not trained unless `freeze` is False.

        Args:
            embeddings: tensor (V, D), the rows; the layer shares their memory.
            freeze: True for a table without a gradient. Default: True.
            padding_idx: row that gets no gradient. Default: None.
            max_norm: norm to which a lookup shortens longer rows in place. Default: None, no limit.
            norm_type: the p of that norm. Default: 2.
            scale_grad_by_freq: True to divide each row's gradient by its lookups in the batch. Default: False.
            sparse: True for a sparse gradient, of the rows that were looked up. Default: False.

        Raises: AssertionError unless `embeddings` is a matrix.

        Example:
            >>> table = nn.Embedding.from_pretrained(ad.tensor([[1.0, 2.0], [3.0, 4.0]]))
            >>> table(ad.tensor([1, 0]))
            tensor([[3., 4.],
                    [1., 2.]])
        """
        shape = _check_table_shape(embeddings)
        return cls(*shape, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, _freeze=freeze)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        return text + self._format_non_defaults(
            padding_idx=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, sparse=False
        )


class EmbeddingBag(EmbeddingTable):
    """Embedding layer that reduces the rows of each bag of indices to one vector.

    A call takes the indices, the `offsets` of the bags, and optional `per_sample_weights` for mode "sum".

    Args:
        num_embeddings: number of rows, V.
        embedding_dim: size of each row, D.
        max_norm: norm to which a lookup shortens longer rows in place. Default: None, no limit.
        norm_type: the p of that norm. Default: 2.
        scale_grad_by_freq: True to divide each row's gradient by its lookups in the batch. Default: False.
        mode: "sum", "mean" or "max". Default: "mean".
        sparse: True for a sparse gradient, of the rows that were looked up. Default: False.
        include_last_offset: True if the last offset is the end of the last bag. Default: False.
        padding_idx: row that starts as zeros, and that reductions leave out. Default: None.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Shapes:
        input (bags, length), or (indices,) with offsets (bags,) -> (bags, D)

    Raises: AssertionError for a `padding_idx` outside the table.

    Example:
        >>> table = nn.EmbeddingBag(4, 2, mode="sum")
        >>> table(ad.tensor([0, 1, 2]), offsets=ad.tensor([0, 2])).shape
        adjoint.Size([2, 2])
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None,
        include_last_offset: bool = False, padding_idx: int | None = None, device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = _normalize_padding_idx(padding_idx, num_embeddings, "padding_idx")
        self._init_weight(_weight, True, device, dtype)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """Return a table with these rows (V, D), which are not trained unless `freeze` is False."""
        shape, last = _check_table_shape(embeddings), include_last_offset
        made = cls(*shape, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings, last, padding_idx)
        made.weight.requires_grad = not freeze
        return made

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
            per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        text += self._format_non_defaults(max_norm=None, norm_type=2, scale_grad_by_freq=False)
        return f"{text}, mode={self.mode!r}" + self._format_non_defaults(padding_idx=None)
