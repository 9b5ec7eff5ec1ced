"""Whence in scikit-learn: `Encoder(method)` is a transformer with `fit`, `transform` and `inverse_transform`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from whence.descend import Recipe
from whence.fit import fit
from whence.methods import PCA, Gradient, Method
from whence.representation import Decodes


class Encoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Codes of a method that learns from single observations, one row each.

    Parameters
    ----------
    method : a method such as ``BetaVAE(latents=3, net=MLP())``; None is ``PCA`` with at most ten components.
    recipe : the budget of methods that descend; None is the paper's, which is long.
    shape : of one observation, for rows that are flattened images such as (1, 64, 64); None: rows are vectors.
    random_state : an integer seed. Two fits with the same one are equal.
    device : where to fit.

    Attributes
    ----------
    fitted_ : the :class:`whence.Fitted` with its representation, curves and provenance.
    """

    def __init__(
        self,
        method: Method | None = None,
        *,
        recipe: Recipe | None = None,
        shape: tuple[int, ...] | None = None,
        random_state: int = 0,
        device: str = "cpu",
    ) -> None:
        self.method = method
        self.recipe = recipe
        self.shape = shape
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any = None) -> Encoder:
        """Learn from rows; y is ignored."""
        rows = validate_data(self, X, dtype=(np.float64, np.float32), ensure_min_samples=2)
        method = self.method or PCA(latents=min(10, *rows.shape))
        recipe = self.recipe if isinstance(method, Gradient) else None
        self.fitted_ = fit(method, self._shaped(rows), seed=self.random_state, recipe=recipe, device=self.device)
        self._n_features_out = self.fitted_.representation.dims
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Rows to codes."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        return self.fitted_.representation.encode(self._shaped(rows)).astype(rows.dtype)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Codes back to rows, for representations that decode."""
        check_is_fitted(self)
        representation = self.fitted_.representation
        if not isinstance(representation, Decodes):
            raise TypeError(
                f"{type(representation).__name__} does not decode, so codes cannot be turned back into rows."
            )
        codes = np.asarray(X)
        if codes.ndim != 2 or codes.shape[1] != representation.dims:
            raise ValueError(f"Codes have shape (n, {representation.dims}), got {codes.shape}.")
        return representation.decode(codes).reshape(len(codes), -1)

    def _shaped(self, rows: np.ndarray) -> np.ndarray:
        return rows if self.shape is None else rows.reshape(len(rows), *self.shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
