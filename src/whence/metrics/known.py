"""The tuples of all metrics, and of those that compare models with each other: one line each."""

from whence.metrics.beta_vae import BetaVAEMetric
from whence.metrics.counterfactuals import Counterfactuals
from whence.metrics.dci import DCI
from whence.metrics.dci_es import CodeSize, EaseOfUse
from whence.metrics.dcimig import DCIMIG
from whence.metrics.edges import AveragePrecision, EdgeRecovery
from whence.metrics.explicitness import Explicitness
from whence.metrics.factor_vae import FactorVAEMetric
from whence.metrics.infomec import InfoMEC
from whence.metrics.irs import IRS
from whence.metrics.jemmig import JEMMIG
from whence.metrics.mcc import MCC
from whence.metrics.metric import Metric
from whence.metrics.mic import MIC, ConceptMIC
from whence.metrics.mig import MIG, MIGPosterior
from whence.metrics.mig_sup import MIGSup
from whence.metrics.mixing import ParentMixing, ScaleMixing
from whence.metrics.model_centrality import ModelCentrality
from whence.metrics.modularity import Modularity
from whence.metrics.quality import InterventionalDiscrepancy, ReaderFrechet
from whence.metrics.r2 import R2
from whence.metrics.ranking import Ranking
from whence.metrics.reconstruction import BernoulliCrossEntropy, Reconstruction
from whence.metrics.samples import PriorDiscrepancy, SampleDiscrepancy
from whence.metrics.sap import SAP
from whence.metrics.shd import SHD
from whence.metrics.sid import SID
from whence.metrics.ssim import SSIM
from whence.metrics.udr import UDR
from whence.metrics.unsupervised import CodeInformation, GaussianTotalCorrelation, GaussianWassersteinCorrelation
from whence.worlds import World

METRICS: tuple[type[Metric], ...] = (
    BetaVAEMetric,
    FactorVAEMetric,
    MIG,
    MIGPosterior,
    MIGSup,
    DCIMIG,
    JEMMIG,
    Modularity,
    InfoMEC,
    MIC,
    ConceptMIC,
    GaussianTotalCorrelation,
    GaussianWassersteinCorrelation,
    CodeInformation,
    DCI,
    Explicitness,
    SAP,
    IRS,
    MCC,
    R2,
    EaseOfUse,
    CodeSize,
    Reconstruction,
    BernoulliCrossEntropy,
    SSIM,
    SampleDiscrepancy,
    PriorDiscrepancy,
    ReaderFrechet,
    InterventionalDiscrepancy,
    SHD,
    EdgeRecovery,
    AveragePrecision,
    SID,
    ScaleMixing,
    ParentMixing,
    Counterfactuals,
)

RANKINGS: tuple[type[Ranking], ...] = (UDR, ModelCentrality)


def suited(world: World) -> list[Metric]:
    """Every metric that has something to ask of this world, with its defaults."""
    return [metric for kind in METRICS if (metric := kind()).suits(world)]
