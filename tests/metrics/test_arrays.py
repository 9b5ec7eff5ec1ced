"""What a metric accepts, and what it says of what it does not."""

import inspect

import numpy as np
import pytest
import torch

from whence import metrics
from whence.metrics import Unmeasurable

#: Every public function of codes and factors.
FUNCTIONS = [
    f
    for name, f in vars(metrics).items()
    if inspect.isfunction(f) and list(inspect.signature(f).parameters)[:2] == ["codes", "factors"]
]
EACH = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)


@pytest.fixture(scope="module")
def v() -> np.ndarray:
    return np.random.default_rng(0).integers([3, 4, 5], size=(300, 3))


@pytest.fixture(scope="module")
def z(v) -> np.ndarray:
    return v + np.random.default_rng(1).normal(size=v.shape)


def numbers(result) -> np.ndarray:
    """All numbers of a result, whatever its shape."""
    return np.concatenate([np.ravel(np.asarray(x, float)) for x in (result if isinstance(result, tuple) else [result])])


@EACH
def test_lists_integers_truths_and_tensors_are_arrays(function, v, z):
    expected = numbers(function(z, v))
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(numbers(function(z.tolist(), v.tolist())), expected)
    np.testing.assert_array_equal(numbers(function(torch.tensor(z, requires_grad=True), torch.tensor(v))), expected)
    half = torch.tensor(z).bfloat16()
    np.testing.assert_array_equal(numbers(function(half, v)), numbers(function(half.float(), v)))
    half = half.half().numpy()
    np.testing.assert_allclose(numbers(function(half, v)), numbers(function(half.astype(float), v)), atol=1e-9)
    np.testing.assert_array_equal(numbers(function(z > 0, v)), numbers(function((z > 0).astype(float), v)))


@EACH
@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda z, v: (np.where(z == z[7, 0], np.nan, z), v), ValueError, "got NaN or infinity in 1 rows. Drop these"),
        (lambda z, v: (z[1:], v), ValueError, r"the same N, got \(299, 3\) and \(300, 3\). Row i of both"),
        (lambda z, v: (z[:, :, None], v), ValueError, r"codes \(N, D\) and factors \(N, K\).*got \(300, 3, 1\)"),
        (lambda z, v: (z[:0], v[:0]), ValueError, r"needs 2 rows or more.*got codes \(0, 3\) and factors \(0, 3\)"),
        (lambda z, v: (z[:1], v[:1]), ValueError, r"needs 2 rows or more.*Give more rows"),
        (lambda z, v: (z[:, :0], v), ValueError, r"a code and a factor, got codes \(300, 0\)"),
        (lambda z, v: (z, v.astype(str)), TypeError, "are real numbers, got float64 and <U21. Number names first"),
        (lambda z, v: (z + 1j, v), TypeError, "are real numbers, got complex128 and int64"),
    ],
)
def test_what_no_metric_can_use_is_refused_with_what_was_got_and_the_cure(function, spoil, error, message, v, z):
    with pytest.raises(error, match=message):
        function(*spoil(z, v))


@EACH
def test_a_factor_of_one_value_gives_a_number_or_a_reason(function, v, z):
    try:
        found = numbers(function(z, np.column_stack([v, np.ones(300)])))
    except Unmeasurable as why:
        found = np.zeros(1)
        text = str(why)
        assert "factor" in text, text
    assert np.isfinite(found).all()
