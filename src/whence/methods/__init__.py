"""9. Methods: one file each, one line each in METHODS."""

from whence.methods._method import Gradient, Method
from whence.methods.adversarial.aae import AAE
from whence.methods.adversarial.clustering_aae import ClusteringAAE
from whence.methods.adversarial.reducing_aae import ReducingAAE
from whence.methods.adversarial.semi_supervised_aae import SemiSupervisedAAE
from whence.methods.adversarial.wae import WAE
from whence.methods.baseline.ae import AE
from whence.methods.baseline.linear import ICA, PCA, Pixels, RandomEncoder
from whence.methods.causal.anchored import AnchoredVAE, AnchoredWAE
from whence.methods.causal.causal_vae import CausalVAE, UnlabelledCausalVAE
from whence.methods.causal.causal_wae import CausalWAE
from whence.methods.causal.conditional_vae import ConditionalVAE
from whence.methods.causal.dear import DEAR
from whence.methods.causal.icm_vae import ICMVAE
from whence.methods.causal.scm_vae import SCMVAE
from whence.methods.grouped.ada_gvae import AdaGVAE
from whence.methods.grouped.ada_ml_vae import AdaMLVAE
from whence.methods.grouped.dc_ign import DCIGN
from whence.methods.grouped.gvae import GVAE
from whence.methods.grouped.ml_vae import MLVAE
from whence.methods.interventional.cauca import CauCA
from whence.methods.interventional.contrastive_crl import ContrastiveCRL
from whence.methods.interventional.interventional_ae import InterventionalAE
from whence.methods.labelled.ivae import IVAE
from whence.methods.likelihood.annealed_vae import AnnealedVAE
from whence.methods.likelihood.beta_tc_vae import BetaTCVAE
from whence.methods.likelihood.beta_vae import BetaVAE
from whence.methods.likelihood.dip_vae import DIPVAE
from whence.methods.likelihood.factor_vae import FactorVAE
from whence.methods.likelihood.gaussian_vae import GaussianCode, GaussianVAE
from whence.methods.likelihood.info_vae import InfoVAE
from whence.methods.likelihood.vae import VAE
from whence.methods.score_based.gscale import GSCALE
from whence.methods.score_based.linear_gaussian import LinearGaussianCRL
from whence.methods.score_based.lscale import LSCALE
from whence.methods.score_based.umni import UMNI

METHODS: tuple[type[Method], ...] = (
    Pixels,
    RandomEncoder,
    PCA,
    ICA,
    AE,
    VAE,
    BetaVAE,
    AnnealedVAE,
    FactorVAE,
    BetaTCVAE,
    DIPVAE,
    InfoVAE,
    WAE,
    AAE,
    ClusteringAAE,
    ReducingAAE,
    SemiSupervisedAAE,
    IVAE,
    MLVAE,
    GVAE,
    AdaGVAE,
    AdaMLVAE,
    DCIGN,
    ConditionalVAE,
    CausalVAE,
    UnlabelledCausalVAE,
    SCMVAE,
    ICMVAE,
    DEAR,
    CausalWAE,
    AnchoredVAE,
    AnchoredWAE,
    LSCALE,
    UMNI,
    LinearGaussianCRL,
    GSCALE,
    CauCA,
    ContrastiveCRL,
    InterventionalAE,
)
