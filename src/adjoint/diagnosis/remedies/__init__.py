"""Remedies: for each kind of error, what the user can write instead."""

from adjoint.diagnosis.remedies import calls as calls
from adjoint.diagnosis.remedies import gradients as gradients
from adjoint.diagnosis.remedies import losses as losses
from adjoint.diagnosis.remedies import modules as modules
from adjoint.diagnosis.remedies import shapes as shapes
from adjoint.diagnosis.remedies.registry import find_remedy as find_remedy
