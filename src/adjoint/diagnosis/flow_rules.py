"""The rules on what values are computed from, in their order."""

from __future__ import annotations

from adjoint.diagnosis.rules.dataflow.agents.actions import (
    AdvantageOrder,
    BestAction,
    CriticTarget,
    UnloggedProbability,
    UnusedTarget,
)
from adjoint.diagnosis.rules.dataflow.agents.policies import (
    BootstrapMask,
    CriticValue,
    DuelingMean,
    GreaterOfCritics,
    PolicyRatio,
)
from adjoint.diagnosis.rules.dataflow.agents.temporal_targets import ReturnOrder, TemporalTarget
from adjoint.diagnosis.rules.dataflow.choices import (
    ChosenDimension,
    FarthestCode,
    LearnedConfidence,
    MarginLabels,
    PolicyEntropy,
    UnreadOutputs,
)
from adjoint.diagnosis.rules.dataflow.custom_functions import CustomGradients
from adjoint.diagnosis.rules.dataflow.idle_parts import (
    AttackGradients,
    EqualVectors,
    FrozenVectors,
    IdleReversal,
    UnreadLoader,
    ZeroFactor,
)
from adjoint.diagnosis.rules.dataflow.inputs.input_rules import INPUT_RULES
from adjoint.diagnosis.rules.dataflow.label_values import (
    BalancedTwice,
    ClampedLabels,
    ClassesAsNumbers,
    LossOfItself,
    SameTargets,
    TruncatedLabels,
)
from adjoint.diagnosis.rules.dataflow.latent_noise import (
    LatentDeviation,
    NoiseCoefficients,
    RepeatedNoise,
    SampleGradient,
    SharedNoise,
    UnseenNoise,
)
from adjoint.diagnosis.rules.dataflow.losses.loss_rules import LOSS_RULES
from adjoint.diagnosis.rules.dataflow.losses.scales import (
    ClampedPrediction,
    ContrastPolarity,
    DividedMean,
    FocalMean,
    FocalWeight,
    InvertedLossMask,
    MaskedMean,
    UnevenReductions,
)
from adjoint.diagnosis.rules.dataflow.losses.signs import AdvantageGradient, ConstantTerm, LinearPenalty, LossSigns
from adjoint.diagnosis.rules.dataflow.recurrent_outputs import (
    CarriedState,
    CutSteps,
    DetachedSteps,
    FirstOfAll,
    RecurrentOutputs,
)
from adjoint.diagnosis.rules.dataflow.scores import (
    AttentionScores,
    ContrastiveScores,
    DistancesAsLogits,
    LogitScale,
    OneTemperature,
    ProbabilitiesAsLogits,
    ScaledByLength,
    ZeroedScores,
)
from adjoint.diagnosis.rules.dataflow.unused_parts import FrozenHead, UnfilledParameter, UnusedLayer, UnusedSchedule
from adjoint.diagnosis.rules.dataflow.unused_results import UnusedResult
from adjoint.diagnosis.rules.dataflow.weight_averages import AverageFactor
from adjoint.diagnosis.watch.rule import WatchRule

# Those on single losses and inputs come before those on parts that nothing reads.
FLOW_RULES: tuple[type[WatchRule], ...] = (
    RecurrentOutputs,
    FirstOfAll,
    DetachedSteps,
    CutSteps,
    CarriedState,
    AttentionScores,
    ContrastiveScores,
    DistancesAsLogits,
    LogitScale,
    ProbabilitiesAsLogits,
    ScaledByLength,
    ZeroedScores,
    OneTemperature,
    LatentDeviation,
    RepeatedNoise,
    UnseenNoise,
    SharedNoise,
    NoiseCoefficients,
    LossSigns,
    LinearPenalty,
    ConstantTerm,
    AdvantageGradient,
    SampleGradient,
    ClampedPrediction,
    InvertedLossMask,
    MaskedMean,
    UnevenReductions,
    DividedMean,
    FocalMean,
    FocalWeight,
    ContrastPolarity,
    PolicyRatio,
    BestAction,
    AdvantageOrder,
    UnloggedProbability,
    CriticTarget,
    UnusedTarget,
    ChosenDimension,
    FarthestCode,
    UnreadOutputs,
    LearnedConfidence,
    MarginLabels,
    PolicyEntropy,
    BootstrapMask,
    TemporalTarget,
    ReturnOrder,
    DuelingMean,
    GreaterOfCritics,
    CriticValue,
    LossOfItself,
    SameTargets,
    TruncatedLabels,
    BalancedTwice,
    ClampedLabels,
    ClassesAsNumbers,
    *LOSS_RULES,
    *INPUT_RULES,
    AverageFactor,
    UnusedResult,
    AttackGradients,
    EqualVectors,
    FrozenVectors,
    IdleReversal,
    UnreadLoader,
    ZeroFactor,
    UnusedLayer,
    UnusedSchedule,
    FrozenHead,
    UnfilledParameter,
    CustomGradients,
)
