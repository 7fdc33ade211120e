"""The rules of `ad.doctor`, in the order in which they see what a program does."""

from __future__ import annotations

from adjoint.diagnosis.flow_rules import FLOW_RULES
from adjoint.diagnosis.rules.attention import AttentionMask, FutureTokens, PositionByBatch, PositionFrequencies
from adjoint.diagnosis.rules.data import ConstantInput, InputScale, MixedOrder, SameBatch
from adjoint.diagnosis.rules.dataflow.inputs.mixed_views import MixedView
from adjoint.diagnosis.rules.dataflow.inputs.number_types import DoublePrecision, WrappedIntegers
from adjoint.diagnosis.rules.dataflow.learning_rate import LearningRate
from adjoint.diagnosis.rules.dataflow.losses.class_weights import InvertedWeights
from adjoint.diagnosis.rules.dataflow.softmax_dimensions import SoftmaxDimension
from adjoint.diagnosis.rules.dataflow.target_batches import Targets
from adjoint.diagnosis.rules.dataflow.units import DeadUnits, SaturatedUnits
from adjoint.diagnosis.rules.dataflow.unused_parts import FrozenGroups
from adjoint.diagnosis.rules.layer_options import AdamOptions, ClipSize, DroppedOutput, LayerOptions, NormalizedOutput
from adjoint.diagnosis.rules.loops.accumulation import AccumulationStart, ClearedAccumulation, UndividedAccumulation
from adjoint.diagnosis.rules.loops.clipping import ClipOrder, ForeignClip, ScaledGradients
from adjoint.diagnosis.rules.loops.copies import AverageWithoutBuffers, LossOfAnother, TrainedOnHeldOut, UntrainedCopy
from adjoint.diagnosis.rules.loops.evaluation import (
    EqualSamples,
    EvaluationScale,
    RowScale,
    StandingContext,
    UnsortedNucleus,
)
from adjoint.diagnosis.rules.loops.gradient_sizes import GradientSizes
from adjoint.diagnosis.rules.loops.groups import DefaultsWrite, ExchangedDecay, LeadingGroup, LoadedRates, UnreadOptions
from adjoint.diagnosis.rules.loops.held_out import ChangingEvaluation, SharedSamples, SharedWindows
from adjoint.diagnosis.rules.loops.rates import ClampedGradients, GroupRates
from adjoint.diagnosis.rules.loops.schedules import ForeignSchedule, FreshSchedules, PlateauMode, ScheduleUnit
from adjoint.diagnosis.rules.loops.states import AliasedModel, ForgottenStates, LoadedStates, TargetNetwork
from adjoint.diagnosis.rules.loops.steps import AddedGradients, Clearing, HandMadeStep, MissingStep, ScheduleOrder
from adjoint.diagnosis.rules.loops.training_loop import (
    AbsoluteSchedule,
    CriticSigns,
    ForeignGradients,
    GeneratorTarget,
    SamplerWeights,
    SharedParameters,
)
from adjoint.diagnosis.rules.loops.weights import ClampedParameters, InitialScale, ReplacedWeights
from adjoint.diagnosis.rules.loss_terms import (
    ConstantPenalty,
    LossSign,
    MeanBeforeLoss,
    NormalizedBatch,
    NormOverBatch,
    WeightsAfterReduction,
)
from adjoint.diagnosis.rules.memory import CarriedGraph, GrowingSum, KeptResults, RecordedEvaluation, RepeatedHook
from adjoint.diagnosis.rules.metrics import LogitThreshold, MetricChoice, OneHotAccuracy, SumOfMeans
from adjoint.diagnosis.rules.missing_gradients import MissingGradients
from adjoint.diagnosis.rules.modes import (
    EvaluationMode,
    PartInEvaluation,
    SkippedMode,
    TrainingWhileEvaluating,
)
from adjoint.diagnosis.rules.norms import FrozenDropout, FrozenNorm, SingleValueNorm
from adjoint.diagnosis.rules.probabilities import (
    DivergenceReduction,
    HalfRange,
    LateMask,
    MissingLogarithm,
    RepeatedActivation,
    SoftmaxForLabels,
)
from adjoint.diagnosis.rules.repeated_layers import (
    EqualWeights,
    LostSharing,
    MissingActivation,
    RepeatedLayer,
    SharedDefault,
    UnsharedTwins,
)
from adjoint.diagnosis.rules.settings import (
    ConstantWeights,
    FreshOptimizers,
    OptimizerOptions,
    Recompilations,
    SharedBuffers,
    SharedMemory,
    UnreadAttributes,
)
from adjoint.diagnosis.rules.shapes import AllPairs, BatchFirst, PooledChannels
from adjoint.diagnosis.rules.source.epochs import OverwrittenLoss
from adjoint.diagnosis.rules.source.text_rules import TEXT_RULES
from adjoint.diagnosis.rules.targets import IgnoredClass, LossArguments, TargetDistribution, TargetRange, TargetScale
from adjoint.diagnosis.rules.tokens import (
    OneIndex,
    PaddedMean,
    PaddingAsToken,
    PaddingInAttention,
    PaddingIndex,
    PaddingInLoss,
)
from adjoint.diagnosis.rules.values import FirstNaN
from adjoint.diagnosis.rules.writes import ExpandedWrite, HiddenWrite, OverwrittenShortcut, RepeatedWrite
from adjoint.diagnosis.watch.rule import WatchRule

# Causes come before their effects: a later rule reads what those before have found.
RULES: tuple[type[WatchRule], ...] = (
    *TEXT_RULES,
    RepeatedActivation,
    SoftmaxDimension,
    SoftmaxForLabels,
    HalfRange,
    PooledChannels,
    MissingLogarithm,
    DivergenceReduction,
    AllPairs,
    OneHotAccuracy,
    MetricChoice,
    SumOfMeans,
    LateMask,
    BatchFirst,
    DoublePrecision,
    WrappedIntegers,
    LossArguments,
    TargetRange,
    TargetScale,
    SamplerWeights,
    TargetDistribution,
    IgnoredClass,
    InvertedWeights,
    MeanBeforeLoss,
    WeightsAfterReduction,
    NormOverBatch,
    NormalizedBatch,
    ConstantPenalty,
    LossSign,
    PaddingInLoss,
    PaddingInAttention,
    PaddingAsToken,
    PaddingIndex,
    OneIndex,
    PaddedMean,
    *FLOW_RULES,
    GeneratorTarget,
    AbsoluteSchedule,
    ClearedAccumulation,
    AccumulationStart,
    UndividedAccumulation,
    SharedParameters,
    CriticSigns,
    ForeignGradients,
    AttentionMask,
    FutureTokens,
    PositionByBatch,
    PositionFrequencies,
    RepeatedLayer,
    EqualWeights,
    SharedDefault,
    UnsharedTwins,
    MissingActivation,
    LayerOptions,
    DroppedOutput,
    NormalizedOutput,
    AdamOptions,
    ClipSize,
    LoadedStates,
    AliasedModel,
    ForgottenStates,
    TargetNetwork,
    OptimizerOptions,
    UnreadAttributes,
    SharedMemory,
    SharedBuffers,
    ConstantWeights,
    FreshOptimizers,
    ClipOrder,
    ForeignClip,
    ScaledGradients,
    GroupRates,
    UnreadOptions,
    DefaultsWrite,
    ExchangedDecay,
    LeadingGroup,
    LoadedRates,
    ClampedGradients,
    ReplacedWeights,
    InitialScale,
    MixedView,
    Clearing,
    MissingStep,
    HandMadeStep,
    AddedGradients,
    ConstantInput,
    LossOfAnother,
    MissingGradients,
    FrozenGroups,
    OverwrittenLoss,
    EvaluationMode,
    PartInEvaluation,
    SkippedMode,
    TrainingWhileEvaluating,
    SingleValueNorm,
    FrozenNorm,
    FrozenDropout,
    InputScale,
    Targets,
    EvaluationScale,
    StandingContext,
    EqualSamples,
    UnsortedNucleus,
    SharedSamples,
    SharedWindows,
    ChangingEvaluation,
    UntrainedCopy,
    AverageWithoutBuffers,
    TrainedOnHeldOut,
    RowScale,
    LogitThreshold,
    SameBatch,
    MixedOrder,
    RepeatedWrite,
    HiddenWrite,
    ExpandedWrite,
    OverwrittenShortcut,
    LostSharing,
    Recompilations,
    GrowingSum,
    KeptResults,
    RecordedEvaluation,
    RepeatedHook,
    CarriedGraph,
    FirstNaN,
    ScheduleOrder,
    ForeignSchedule,
    ScheduleUnit,
    FreshSchedules,
    PlateauMode,
    DeadUnits,
    SaturatedUnits,
    ClampedParameters,
    GradientSizes,
    LearningRate,
)
