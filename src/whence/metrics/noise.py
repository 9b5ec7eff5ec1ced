"""Which entries of a table of mutual information are more than noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from whence.metrics.arrays import Array, codes_and_factors
from whence.metrics.information import Information, classes, entropy, equal_frequencies
from whence.metrics.probe import Probe

RISK = 1e-3  #: that anything at all is found in a table of codes and factors which are independent


def informative(codes: Any, factors: Any, *, bins: int = 20, repeats: float = 1.0) -> Array:
    r"""(D, K), true where a code and a factor are not independent, by Pearson's test on the histograms' counts.

    .. math:: \frac{N - 1}{N} \sum_{ab} \frac{(n_{ab} - n_a n_b / N)^2}{n_a n_b / N} \sim \chi^2_{(A - 1)(B - 1)}

    Its mean is exact when rows are dealt at random, also for sparse tables, where that of 2 N times the information is
    far off. `RISK` is shared by all D K tests. If rows were drawn again, `repeats` is how often each was on average:
    the test divides by it.
    """
    return tabled(codes, factors, bins, repeats)[1]


def evident(codes: Any, factors: Any, *, bins: int = 20, repeats: float = 1.0) -> Information:
    """`mutual_information` without bias, and 0 where it is not above noise (`informative`)."""
    information, above = tabled(codes, factors, bins, repeats)
    return information._replace(mutual=np.where(above, information.mutual.clip(0), 0.0))


def tabled(codes: Any, factors: Any, bins: int, repeats: float) -> tuple[Information, Array]:
    """Unbiased information and where it is more than noise, both from one table of counts a pair."""
    from scipy.special import gammaincc

    z, v = codes_and_factors(codes, factors)
    n, d = z.shape
    labels = [(label, np.bincount(label)) for label in np.ascontiguousarray(classes(v, bins).T)]
    of_codes, of_factors = np.empty(d), np.array([entropy(across, True) for _, across in labels])
    joint, statistic, freedom = np.zeros((3, d, len(labels)))
    for j in range(d):
        cell = equal_frequencies(z[:, j : j + 1], bins)[:, 0]
        down = np.bincount(cell)
        of_codes[j] = entropy(down, True)
        for k, (label, across) in enumerate(labels):
            table = np.bincount(cell * len(across) + label, minlength=len(down) * len(across))
            joint[j, k] = entropy(table, True)
            expected = np.outer(down, across).ravel() / n
            there = expected > 0
            statistic[j, k] = np.square(table[there]) @ (1 / expected[there]) - n
            freedom[j, k] = (np.count_nonzero(down) - 1) * (np.count_nonzero(across) - 1)
    by_chance = gammaincc(freedom.clip(1) / 2, statistic.clip(0) * (n - 1) / n / repeats / 2)  # the tail of chi squared
    above = (freedom > 0) & (by_chance < RISK / freedom.size)
    return Information(of_codes[:, None] + of_factors - joint, of_codes, of_factors), above


def evident_of(probe: Probe, bins: int) -> Information:
    """`evident` of a probe's pool, once for all metrics."""
    return probe.once(("evident", bins), lambda: evident(*probe.pool, bins=bins, repeats=probe.repeats))
