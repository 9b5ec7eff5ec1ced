"""12. Metrics: a public pure function on two arrays first, a Metric value second. One line each in METRICS."""

from whence.metrics.arrays import Codes, Unmeasurable
from whence.metrics.beta_vae import BetaVAEMetric, beta_vae_metric
from whence.metrics.boosting import Boosting, Learned
from whence.metrics.counterfactuals import Counterfactuals, Effect, Reader, counterfactual_effects, reader
from whence.metrics.dci import (
    DCI,
    DCINumbers,
    ExactBoosting,
    Forest,
    ForestDCI,
    Importances,
    Lasso,
    LassoDCI,
    dci,
    dci_from,
    importances,
)
from whence.metrics.dci_es import (
    CodeSize,
    Curve,
    EaseOfUse,
    Features,
    Forests,
    Networks,
    code_size,
    ease_of_use,
    loss_capacity,
)
from whence.metrics.dcimig import DCIMIG, dcimig
from whence.metrics.edges import AveragePrecision, EdgeRecovery, average_precision, edge_recovery, orientation_accuracy
from whence.metrics.energy import Distance, energy_distance
from whence.metrics.evaluate import evaluate, rank, read_results
from whence.metrics.explicitness import Explicitness, auroc, explicitness, explicitness_each
from whence.metrics.factor_vae import FactorVAEMetric, Vote, factor_vae_metric, majority_vote
from whence.metrics.infomec import InfoMEC, info_mec, linear_information, neighbour_information
from whence.metrics.information import Information, mutual_information
from whence.metrics.irs import IRS, irs, robustness
from whence.metrics.jemmig import JEMMIG, jemmig
from whence.metrics.known import METRICS, RANKINGS, suited
from whence.metrics.maps import Linear, Network
from whence.metrics.mcc import MCC, Match, match, mcc
from whence.metrics.metric import Metric, Part, Result, Results
from whence.metrics.mic import MIC, ConceptMIC, characteristic_matrix, coefficients, mic, tic
from whence.metrics.mig import MIG, MIGPosterior, mig, mig_posterior
from whence.metrics.mig_sup import MIGSup, mig_sup
from whence.metrics.mixing import (
    MixingError,
    ParentMixing,
    ScaleMixing,
    effective_mixing,
    mixing_error,
    scale_mixing,
    with_ancestors,
    with_parents,
    with_surrounding,
)
from whence.metrics.mmd import median_distance, mmd
from whence.metrics.model_centrality import ModelCentrality, cross_evaluation, model_centrality
from whence.metrics.modularity import Modularity, modularity, modularity_from
from whence.metrics.noise import evident, informative
from whence.metrics.probe import Probe
from whence.metrics.quality import InterventionalDiscrepancy, ReaderFrechet
from whence.metrics.r2 import R2, r2, r2_each
from whence.metrics.ranking import Ranking
from whence.metrics.reconstruction import (
    BernoulliCrossEntropy,
    Reconstruction,
    bernoulli_cross_entropy,
    reconstruction_error,
)
from whence.metrics.samples import (
    PriorDiscrepancy,
    SampleDiscrepancy,
    frechet_distance,
)
from whence.metrics.sap import SAP, sap, sap_scores
from whence.metrics.sharing import Sharing
from whence.metrics.shd import SHD, closure_shd, shd, skeleton_shd
from whence.metrics.sid import SID, sid
from whence.metrics.ssim import SSIM, ssim
from whence.metrics.udr import UDR, Agreement, lasso_similarity, spearman_similarity, udr
from whence.metrics.unsupervised import (
    CodeInformation,
    GaussianTotalCorrelation,
    GaussianWassersteinCorrelation,
    code_information,
    gaussian_total_correlation,
    gaussian_wasserstein_correlation,
)
from whence.terms.mmd import RBF, InverseMultiquadratic, Polynomial
