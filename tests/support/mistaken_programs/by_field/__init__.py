"""Mistaken programs by the field that they are from, taken in kind from public threads."""

from __future__ import annotations

from tests.support.mistaken_programs.by_field.adversaries import ADVERSARY_MISTAKES
from tests.support.mistaken_programs.by_field.attention import SCORE_MISTAKES
from tests.support.mistaken_programs.by_field.contrasts import CONTRAST_MISTAKES
from tests.support.mistaken_programs.by_field.heads import HEAD_MISTAKES
from tests.support.mistaken_programs.by_field.latent_models import LATENT_MISTAKES
from tests.support.mistaken_programs.by_field.networks import NETWORK_MISTAKES
from tests.support.mistaken_programs.by_field.policies import POLICY_MISTAKES
from tests.support.mistaken_programs.by_field.probabilities import PROBABILITY_MISTAKES
from tests.support.mistaken_programs.by_field.recurrent import RECURRENT_MISTAKES
from tests.support.mistaken_programs.by_field.regressions import REGRESSION_MISTAKES
from tests.support.mistaken_programs.by_field.schedules import SCHEDULE_MISTAKES
from tests.support.mistaken_programs.by_field.slips import SLIP_MISTAKES
from tests.support.mistaken_programs.by_field.steps import STEP_MISTAKES

FIELD_MISTAKES = [
    *POLICY_MISTAKES,
    *LATENT_MISTAKES,
    *ADVERSARY_MISTAKES,
    *SCORE_MISTAKES,
    *CONTRAST_MISTAKES,
    *RECURRENT_MISTAKES,
    *STEP_MISTAKES,
    *REGRESSION_MISTAKES,
    *NETWORK_MISTAKES,
    *PROBABILITY_MISTAKES,
    *SCHEDULE_MISTAKES,
    *HEAD_MISTAKES,
    *SLIP_MISTAKES,
]
