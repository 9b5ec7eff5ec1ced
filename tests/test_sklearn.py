"""The adapter keeps scikit-learn's own contract and works in its pipelines."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from whence import VAE, Pixels, Recipe
from whence.nets import MLP
from whence.sklearn import Encoder

TINY = Recipe(steps=5, batch=8, every=5)


# No check is excepted. scikit-learn itself skips check_array_api_input unless SCIPY_ARRAY_API is set.
@parametrize_with_checks([Encoder(), Encoder(VAE(latents=2, net=MLP(hidden=(8,))), recipe=TINY)])
def test_the_adapter_keeps_scikit_learns_contract(estimator, check):
    check(estimator)


def test_codes_feed_a_classifier_in_a_pipeline():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    x = rng.normal(size=(200, 6)) + 3 * y[:, None]
    model = make_pipeline(Encoder(VAE(latents=2, net=MLP(hidden=(16,))), recipe=TINY), LogisticRegression())
    assert model.fit(x, y).score(x, y) > 0.9


def test_flattened_images_get_their_shape_back():
    rows = np.random.default_rng(0).random((20, 64), dtype=np.float32)
    encoder = Encoder(VAE(latents=2, net=MLP(hidden=(8,))), recipe=TINY, shape=(1, 8, 8)).fit(rows)
    assert encoder.fitted_.spec.shape == (1, 8, 8)
    assert encoder.inverse_transform(encoder.transform(rows)).shape == rows.shape


def test_pixels_go_there_and_back_unchanged():
    rows = np.random.default_rng(0).random((10, 4), dtype=np.float32)
    encoder = Encoder(Pixels()).fit(rows)
    np.testing.assert_allclose(encoder.inverse_transform(encoder.transform(rows)), rows)


def test_a_clone_is_not_fitted_and_equal_in_its_parameters():
    encoder = Encoder(VAE(latents=3), recipe=TINY, random_state=4)
    assert clone(encoder).get_params() == encoder.get_params()


def test_codes_of_the_wrong_width_are_refused():
    encoder = Encoder().fit(np.random.default_rng(0).random((20, 4)))
    with pytest.raises(ValueError, match=r"Codes have shape \(n, 4\), got \(2, 3\)"):
        encoder.inverse_transform(np.zeros((2, 3)))
