"""Views of what the runs of any study scored."""

from isoscope.studies.confusion_matrices import CONFUSION
from isoscope.studies.training_curves import TRAINING

VIEWS = (TRAINING, CONFUSION)
