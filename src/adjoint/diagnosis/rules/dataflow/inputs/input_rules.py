"""The rules on what models get, in their order."""

from __future__ import annotations

from adjoint.diagnosis.rules.dataflow.inputs.adjacency import (
    BareAdjacency,
    OwnMessages,
)
from adjoint.diagnosis.rules.dataflow.inputs.axes import (
    AllColumns,
    BestNextOfBatch,
    BestOfBatch,
    MixedSamples,
    MultipliedPositions,
    NormOverSteps,
    TurnedBatch,
    UnreadColumn,
)
from adjoint.diagnosis.rules.dataflow.inputs.cut_values import (
    CutFeatures,
    LabelsInFeatures,
    OwnMean,
    SentinelValues,
)
from adjoint.diagnosis.rules.dataflow.inputs.mixtures import (
    AttackDirection,
    LastStepTarget,
    MixedLabels,
)
from adjoint.diagnosis.rules.dataflow.inputs.ranges import (
    DividedByMeanSquare,
    DividedByVariance,
    MixedUnits,
    PictureStatistics,
    SampleRanges,
    ShiftedClasses,
)
from adjoint.diagnosis.rules.dataflow.model_inputs import (
    CrossedArguments,
    JoinedSamples,
    JoinedWithItself,
    NoisyTarget,
    RandomState,
    TurnedTriplets,
)
from adjoint.diagnosis.rules.dataflow.sample_order import (
    ChangingLabels,
    OtherRows,
    ReadOrder,
    ShuffledAlone,
    ShuffledApart,
    UnorderedTargets,
)
from adjoint.diagnosis.watch.rule import WatchRule

# Those that look at axes come before those that look at values.
INPUT_RULES: tuple[type[WatchRule], ...] = (
    NoisyTarget,
    RandomState,
    CrossedArguments,
    JoinedSamples,
    JoinedWithItself,
    TurnedTriplets,
    BareAdjacency,
    OwnMessages,
    PictureStatistics,
    AllColumns,
    BestNextOfBatch,
    BestOfBatch,
    MultipliedPositions,
    NormOverSteps,
    MixedSamples,
    TurnedBatch,
    UnreadColumn,
    DividedByVariance,
    DividedByMeanSquare,
    ShiftedClasses,
    SampleRanges,
    MixedUnits,
    MixedLabels,
    LastStepTarget,
    AttackDirection,
    OtherRows,
    ReadOrder,
    ShuffledAlone,
    ShuffledApart,
    UnorderedTargets,
    ChangingLabels,
    CutFeatures,
    SentinelValues,
    LabelsInFeatures,
    OwnMean,
)
