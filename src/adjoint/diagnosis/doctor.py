"""`ad.doctor`: watches the first training steps of a program, and reports what is silently wrong."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Finding, Report
from adjoint.diagnosis.rules.attention import AttentionMask, FutureTokens, PositionByBatch
from adjoint.diagnosis.rules.class_weights import InvertedWeights
from adjoint.diagnosis.rules.data import ConstantInput, InputScale, MixedOrder, SameBatch
from adjoint.diagnosis.rules.dataflow.custom_functions import CustomGradients
from adjoint.diagnosis.rules.dataflow.label_values import BalancedTwice, LossOfItself, SameTargets, TruncatedLabels
from adjoint.diagnosis.rules.dataflow.latent_noise import LatentDeviation, RepeatedNoise, SampleGradient, UnseenNoise
from adjoint.diagnosis.rules.dataflow.learning_rate import LearningRate
from adjoint.diagnosis.rules.dataflow.loss_scales import (
    ClampedPrediction,
    InvertedLossMask,
    MaskedMean,
    UnevenReductions,
)
from adjoint.diagnosis.rules.dataflow.loss_signs import AdvantageGradient, ConstantTerm, LinearPenalty, LossSigns
from adjoint.diagnosis.rules.dataflow.model_inputs import CrossedArguments, NoisyTarget, RandomState
from adjoint.diagnosis.rules.dataflow.policies import BootstrapMask, DuelingMean, GreaterOfCritics, PolicyRatio
from adjoint.diagnosis.rules.dataflow.recurrent_outputs import CarriedState, RecurrentOutputs
from adjoint.diagnosis.rules.dataflow.sample_order import ReadOrder, ShuffledAlone
from adjoint.diagnosis.rules.dataflow.scores import AttentionScores, ContrastiveScores, ProbabilitiesAsLogits
from adjoint.diagnosis.rules.dataflow.softmax_dimensions import SoftmaxDimension
from adjoint.diagnosis.rules.dataflow.target_batches import Targets
from adjoint.diagnosis.rules.dataflow.training_loop import (
    AbsoluteSchedule,
    ClearedAccumulation,
    CriticSigns,
    ForeignGradients,
    GeneratorTarget,
    SamplerWeights,
)
from adjoint.diagnosis.rules.dataflow.units import DeadUnits, SaturatedUnits
from adjoint.diagnosis.rules.dataflow.unused_parts import UnfilledParameter, UnusedLayer, UnusedSchedule
from adjoint.diagnosis.rules.dataflow.unused_results import UnusedResult
from adjoint.diagnosis.rules.dataflow.weight_averages import AverageFactor
from adjoint.diagnosis.rules.layer_options import AdamOptions, ClipSize, DroppedOutput, LayerOptions, NormalizedOutput
from adjoint.diagnosis.rules.loss_terms import (
    ConstantPenalty,
    LossSign,
    MeanBeforeLoss,
    NormalizedBatch,
    NormOverBatch,
    WeightsAfterReduction,
)
from adjoint.diagnosis.rules.memory import CarriedGraph, GrowingSum, KeptResults, RecordedEvaluation
from adjoint.diagnosis.rules.metrics import AllPairsInMetric, MetricChoice
from adjoint.diagnosis.rules.missing_gradients import MissingGradients
from adjoint.diagnosis.rules.modes import (
    EvaluationMode,
    FrozenDropout,
    FrozenNorm,
    PartInEvaluation,
    SingleValueNorm,
    SkippedMode,
    TrainingMode,
)
from adjoint.diagnosis.rules.probabilities import (
    DivergenceReduction,
    LateMask,
    MissingLogarithm,
    RepeatedActivation,
    SoftmaxForLabels,
)
from adjoint.diagnosis.rules.repeated_layers import LostSharing, MissingActivation, RepeatedLayer, SharedDefault
from adjoint.diagnosis.rules.settings import (
    ClipOrder,
    ConstantWeights,
    FreshOptimizers,
    OptimizerOptions,
    Recompilations,
    SharedMemory,
    UnreadAttributes,
)
from adjoint.diagnosis.rules.shapes import (
    AllPairs,
    BatchFirst,
    DoublePrecision,
    MixedView,
    PooledChannels,
    WrappedIntegers,
)
from adjoint.diagnosis.rules.states import LoadedStates, TargetNetwork
from adjoint.diagnosis.rules.steps import Clearing, HandMadeStep, MissingStep, PlateauMode, ScheduleOrder
from adjoint.diagnosis.rules.targets import (
    IgnoredClass,
    LossArguments,
    TargetDistribution,
    TargetRange,
    TargetScale,
)
from adjoint.diagnosis.rules.tokens import PaddedMean, PaddingAsToken, PaddingInAttention, PaddingInLoss
from adjoint.diagnosis.rules.values import FirstNaN, GradientSizes
from adjoint.diagnosis.rules.writes import ExpandedWrite, HiddenWrite, OverwrittenShortcut, RepeatedWrite
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.watch import Watch

__all__ = ["Finding", "Report", "doctor"]

STEPS = 20  # of each optimizer, in which ops are watched too
CALLS = 5  # of a step function
# Causes come before their effects: a later rule reads what those before have found.
RULES: tuple[type[WatchRule], ...] = (
    RepeatedActivation,
    SoftmaxDimension,
    SoftmaxForLabels,
    PooledChannels,
    MissingLogarithm,
    DivergenceReduction,
    AllPairs,
    AllPairsInMetric,
    MetricChoice,
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
    PaddedMean,
    RecurrentOutputs,
    CarriedState,
    AttentionScores,
    ContrastiveScores,
    ProbabilitiesAsLogits,
    LatentDeviation,
    RepeatedNoise,
    UnseenNoise,
    LossSigns,
    LinearPenalty,
    ConstantTerm,
    AdvantageGradient,
    SampleGradient,
    ClampedPrediction,
    InvertedLossMask,
    MaskedMean,
    UnevenReductions,
    PolicyRatio,
    BootstrapMask,
    DuelingMean,
    GreaterOfCritics,
    LossOfItself,
    SameTargets,
    TruncatedLabels,
    BalancedTwice,
    NoisyTarget,
    RandomState,
    CrossedArguments,
    AverageFactor,
    UnusedResult,
    UnusedLayer,
    UnusedSchedule,
    UnfilledParameter,
    CustomGradients,
    ReadOrder,
    ShuffledAlone,
    GeneratorTarget,
    AbsoluteSchedule,
    ClearedAccumulation,
    CriticSigns,
    ForeignGradients,
    AttentionMask,
    FutureTokens,
    PositionByBatch,
    RepeatedLayer,
    SharedDefault,
    MissingActivation,
    LayerOptions,
    DroppedOutput,
    NormalizedOutput,
    AdamOptions,
    ClipSize,
    LoadedStates,
    TargetNetwork,
    OptimizerOptions,
    UnreadAttributes,
    SharedMemory,
    ConstantWeights,
    FreshOptimizers,
    ClipOrder,
    MixedView,
    Clearing,
    MissingStep,
    HandMadeStep,
    ConstantInput,
    MissingGradients,
    EvaluationMode,
    PartInEvaluation,
    SkippedMode,
    TrainingMode,
    SingleValueNorm,
    FrozenNorm,
    FrozenDropout,
    InputScale,
    Targets,
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
    CarriedGraph,
    FirstNaN,
    ScheduleOrder,
    PlateauMode,
    DeadUnits,
    SaturatedUnits,
    GradientSizes,
    LearningRate,
)


class Doctor:
    """A block whose training steps are watched; `with` gives its report, which is full when the block ends."""

    def __init__(self, steps: int = STEPS, file: TextIO | None = None) -> None:
        self.report = Report()
        self.steps, self.file = steps, file
        self.watch: Watch | None = None

    def __enter__(self) -> Report:
        self.report = Report()
        self.watch = Watch(RULES, self.report, self.steps)
        self.watch.start()
        return self.report

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        watch, self.watch = self.watch, None
        if watch is not None:
            watch.stop()
            (self.file or sys.stderr).write(f"{self.report}\n")


def watch_until_exit() -> None:
    """Watch from now on, and report when the process ends."""
    watched = Doctor()
    watched.__enter__()
    atexit.register(watched.__exit__, None, None, None)


def doctor(
    step: Callable[..., Operand] | None = None,
    *batch: Operand,
    calls: int = CALLS,
    steps: int = STEPS,
    file: TextIO | None = None,
) -> Operand:
    """Watch training steps, and report what is silently wrong with them: the line, the name, the number, what to do.

    Without arguments it gives a context: `with ad.doctor() as report:`. Given a step function it calls
    `step(*batch)` a few times and returns the report. The report is also written to standard error.

    Args:
        step: function of one training step. Default: None, watch a block.
        batch: its arguments.
        calls: how often to call it. Default: 5.
        steps: in how many steps of each optimizer ops are watched too. Default: 20.
        file: where the report is written. Default: None, standard error.

    Returns: a context, or a report with `findings`.

    Example:
        >>> model = nn.Linear(3, 1)
        >>> optimizer = optim.SGD(model.parameters(), lr=0.1)
        >>> with ad.doctor() as report:
        ...     for _ in range(3):
        ...         optimizer.zero_grad()
        ...         model(ad.ones(4, 3)).square().mean().backward()
        ...         optimizer.step()
        >>> report.findings
        []
    """
    watched = Doctor(steps, file)
    if step is None:
        return watched
    with watched as report:
        for _ in range(calls):
            step(*batch)
    return report
