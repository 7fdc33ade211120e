"""The rules on likelihoods, pairs, shapes and gradients in losses, and on those that are written by hand, in order."""

from __future__ import annotations

from adjoint.diagnosis.rules.dataflow.losses.cancellations import (
    CancelledTerm,
    MaskOfInputs,
    OwnDistance,
)
from adjoint.diagnosis.rules.dataflow.losses.formulas import (
    InvertedHinge,
    LearnedFactor,
    LostTerm,
    OneSample,
    PredictedWeights,
    ShiftedLogarithm,
    TurnedBranches,
)
from adjoint.diagnosis.rules.dataflow.losses.geometry import (
    BoxOverlap,
    InterpolationFactor,
    LogDeterminant,
)
from adjoint.diagnosis.rules.dataflow.losses.hand_made import (
    DistanceOverBatch,
    ExchangedLimits,
    MinimizedLikelihood,
    SignedError,
    SoftmaxOfAll,
    TemperatureSign,
)
from adjoint.diagnosis.rules.dataflow.losses.likelihoods import (
    LikelihoodPairs,
    QuantileChoice,
    VarianceTerm,
)
from adjoint.diagnosis.rules.dataflow.losses.pairs import (
    NegativeSamples,
    SummedBatch,
    UnscaledContrast,
)
from adjoint.diagnosis.rules.dataflow.losses.stops import (
    StoppedPair,
    StraightThrough,
    TrainedTeacher,
)
from adjoint.diagnosis.rules.dataflow.losses.uses import (
    RepeatedLoss,
    UnusedLosses,
)
from adjoint.diagnosis.watch.rule import WatchRule

# Those on single terms come before those on what they are computed from.
LOSS_RULES: tuple[type[WatchRule], ...] = (
    RepeatedLoss,
    UnusedLosses,
    VarianceTerm,
    QuantileChoice,
    LikelihoodPairs,
    BoxOverlap,
    InterpolationFactor,
    LogDeterminant,
    SignedError,
    SoftmaxOfAll,
    ExchangedLimits,
    TemperatureSign,
    MinimizedLikelihood,
    DistanceOverBatch,
    StoppedPair,
    StraightThrough,
    TrainedTeacher,
    NegativeSamples,
    SummedBatch,
    UnscaledContrast,
    CancelledTerm,
    OwnDistance,
    MaskOfInputs,
    TurnedBranches,
    InvertedHinge,
    ShiftedLogarithm,
    LearnedFactor,
    PredictedWeights,
    OneSample,
    LostTerm,
)
