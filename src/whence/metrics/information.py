"""Mutual information of codes and factors by histograms: one table of counts a pair, shared by every metric."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whence.metrics.arrays import Array, Unmeasurable, codes_and_factors

RECURS = 10  #: a factor whose values occur less often than this on average is taken as continuous


class Information(NamedTuple):
    """In nats."""

    mutual: Array  #: (D, K): I(z_j; v_k)
    of_codes: Array  #: (D,): H(z_j)
    of_factors: Array  #: (K,): H(v_k)

    def shared(self) -> Array:
        """(D, K): I(z_j; v_k) / H(v_k), the share of each factor that each code holds."""
        return self.mutual / varying(self.of_factors)


def varying(entropies: Array) -> Array:
    """The entropies of factors, if there is something to know of each."""
    if (entropies == 0).any():
        k = int((entropies == 0).argmax())
        raise Unmeasurable(f"Every factor must vary, and factor {k} has one value in these rows. Leave it out.")
    return entropies


def mutual_information(
    codes: Any, factors: Any, *, bins: int = 20, study: bool = False, unbiased: bool = False
) -> Information:
    r"""(D, K) of :math:`I(z_j; v_k) = H(z_j) + H(v_k) - H(z_j, v_k)` and the entropies, by histograms.

    Codes are cut into `bins` classes of equal frequency, so that neither a monotone map nor an outlier changes
    anything; `study=True` cuts each code's range into equal widths, as disentanglement_lib does. Factors are discrete;
    one whose values hardly recur is cut like a code. `unbiased=True` adds Miller and Madow's (classes - 1) / 2N to
    each entropy, without which rich codes seem to know more than they do.
    """
    z, v = codes_and_factors(codes, factors)
    cut = equal_widths if study else equal_frequencies
    labels = np.stack([np.unique(c, return_inverse=True)[1] for c in v.T], 1) if study else classes(v, bins)
    pairs = [(label, label.max() + 1) for label in labels.T]
    of_factors = np.array([entropy(np.bincount(c), unbiased) for c in labels.T])
    of_codes, joint = np.empty(z.shape[1]), np.empty((z.shape[1], len(pairs)))
    for j in range(z.shape[1]):  # one code at a time: no second table of all rows is held
        cell = cut(z[:, j : j + 1], bins)[:, 0]
        of_codes[j] = entropy(np.bincount(cell), unbiased)
        joint[j] = [entropy(np.bincount(cell * n + label), unbiased) for label, n in pairs]
    mutual = of_codes[:, None] + of_factors - joint
    return Information(mutual if unbiased else mutual.clip(0), of_codes, of_factors)


def entropy(counts: Array, unbiased: bool = False) -> float:
    """Plug-in entropy of counts, in nats; unbiased to first order on request."""
    seen = counts[counts > 0]
    n = seen.sum()
    h = float(np.log(n) - seen @ np.log(seen) / n)
    return h + (len(seen) - 1) / (2 * n) if unbiased else max(h, 0.0)


def equal_frequencies(codes: Array, bins: int) -> Array:
    """(N, D) class numbers: a column of at most `bins` values keeps them, any other is cut at its quantiles."""
    out = np.empty(codes.shape, np.int64)
    last = np.rint(np.arange(1, bins) * len(codes) / bins).astype(np.int64) - 1  # of each class but the last
    for j in range(codes.shape[1]):
        column = np.ascontiguousarray(codes[:, j])
        ranked = np.sort(column)
        edges = ranked[last.clip(0)]
        edges = edges[np.diff(edges, prepend=-np.inf) > 0]
        tied = len(edges) < bins - 1 or edges[-1] == ranked[-1]  # perhaps a discrete code
        if tied and len(few := ranked[np.diff(ranked, prepend=-np.inf) > 0]) <= bins:
            edges = few[:-1]
        out[:, j] = np.searchsorted(edges, column)
    return out


def equal_widths(codes: Array, bins: int) -> Array:
    """(N, D) class numbers: `bins` of equal width over the column's range."""
    # disentanglement_lib@86a644d (evaluation/metrics/utils.py): numpy.histogram's edges without the last
    return np.stack(
        [np.searchsorted(np.histogram_bin_edges(column, bins)[1:-1], column, side="right") for column in codes.T], 1
    )


def classes(factors: Array, bins: int) -> Array:
    """(N, K) class numbers of factors: their values, or as many classes as `bins` if the values hardly recur."""
    out = np.empty(factors.shape, np.int64)
    for k, column in enumerate(factors.T):
        found, out[:, k] = np.unique(column, return_inverse=True)
        if len(found) > bins and len(column) / len(found) < RECURS:
            out[:, k] = equal_frequencies(column[:, None], bins)[:, 0]
    return out
