"""The rules on the program's text that come before those on its steps, in their order."""

from __future__ import annotations

from adjoint.diagnosis.rules.source.branches import (
    CountsBegunAnew,
    EarlyReturn,
    ForgottenBreak,
    StepBesidePrint,
)
from adjoint.diagnosis.rules.source.calls import (
    BackwardArgument,
    Degrees,
    LostVectors,
    RateInBatches,
    RisingSchedule,
    SharedTransform,
    SmoothedAway,
    UnenteredBlock,
)
from adjoint.diagnosis.rules.source.counts import (
    CountedByBatches,
    ExponentOfSum,
    NeverEqual,
    OtherLabels,
    PairOrder,
    StaleLoss,
    UnevenMeans,
)
from adjoint.diagnosis.rules.source.datasets import (
    NeighbourLabel,
    OtherLabel,
    SeededSamples,
    UnturnedMask,
)
from adjoint.diagnosis.rules.source.episodes import (
    EpisodeEnds,
    ExplorationChoice,
    FloorAsCeiling,
    ReturnsOfThePast,
    SameStates,
)
from adjoint.diagnosis.rules.source.epochs import (
    FixedBatch,
    OverlappingBatches,
    Patience,
    RunningTotal,
    StateReset,
    UnusedStep,
    UsedIterator,
)
from adjoint.diagnosis.rules.source.names import (
    CrossedResults,
    LateBinding,
    RepeatedDerivative,
    SharedCounter,
)
from adjoint.diagnosis.rules.source.slips import (
    ExchangedRates,
    HalvedMetric,
    SelectionDirection,
    SignForOperator,
    TurnedGradients,
    UnusedShortcut,
    UphillStep,
)
from adjoint.diagnosis.rules.source.splits import (
    DoubledRows,
    ExchangedFolds,
    OverlappingParts,
    OwnFit,
    SharedFolds,
    UnpackedOrder,
    WholeStatistics,
)
from adjoint.diagnosis.rules.source.standing import (
    EveryBut,
    LostWrite,
    MergedGradients,
    SharedState,
    StandingSchedule,
    UnusedState,
)
from adjoint.diagnosis.watch.rule import WatchRule

# A rule on steps keeps silent about the effect of what one of these has found.
TEXT_RULES: tuple[type[WatchRule], ...] = (
    SignForOperator,
    ForgottenBreak,
    OverlappingParts,
    WholeStatistics,
    SharedFolds,
    SelectionDirection,
    ExplorationChoice,
    EpisodeEnds,
    FloorAsCeiling,
    ReturnsOfThePast,
    SameStates,
    EarlyReturn,
    StepBesidePrint,
    CountsBegunAnew,
    UphillStep,
    TurnedGradients,
    UnusedShortcut,
    ExchangedRates,
    HalvedMetric,
    OwnFit,
    UnpackedOrder,
    DoubledRows,
    ExchangedFolds,
    CountedByBatches,
    NeverEqual,
    PairOrder,
    ExponentOfSum,
    OtherLabels,
    StaleLoss,
    UnevenMeans,
    BackwardArgument,
    Degrees,
    LostVectors,
    RateInBatches,
    RisingSchedule,
    SharedTransform,
    SmoothedAway,
    UnenteredBlock,
    RunningTotal,
    Patience,
    UsedIterator,
    OverlappingBatches,
    UnusedStep,
    FixedBatch,
    StateReset,
    NeighbourLabel,
    OtherLabel,
    SeededSamples,
    UnturnedMask,
    LateBinding,
    SharedCounter,
    CrossedResults,
    RepeatedDerivative,
    StandingSchedule,
    EveryBut,
    LostWrite,
    UnusedState,
    SharedState,
    MergedGradients,
)
