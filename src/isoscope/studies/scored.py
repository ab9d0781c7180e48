"""Views of the scores of any study."""

from isoscope.studies.confusion_matrices import CONFUSION
from isoscope.studies.training_curves import TRAINING

VIEWS = (TRAINING, CONFUSION)
