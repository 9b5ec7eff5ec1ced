"""Ada-ML-VAE: pairs that share some factors, by the product of posteriors."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from whence.methods.grouped.ada_gvae import AdaGVAE
from whence.terms import product


@dataclass(frozen=True, kw_only=True)
class AdaMLVAE(AdaGVAE):
    r"""Ada-ML-VAE: the posteriors of a pair are multiplied in the dimensions that the pair seems to share.

    .. math:: \sigma^{-2} = \sigma_1^{-2} + \sigma_2^{-2}, \quad
              \mu = \sigma^2 (\sigma_1^{-2} \mu_1 + \sigma_2^{-2} \mu_2)

    Which dimensions are shared, and the loss, are those of `AdaGVAE`; multiplied posteriors are narrower than each of
    the two, averaged ones are not.

    Departures from the reference: the product has its variance; disentanglement_lib's (weak_vae.py) is twice as large,
    :math:`2 \sigma_1^2 \sigma_2^2 / (\sigma_1^2 + \sigma_2^2)`.
    """

    @staticmethod
    def pooled(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        return product(mean, variance)
