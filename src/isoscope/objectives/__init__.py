"""Training objectives: one file per kind of task; the training loop uses only their protocol."""

from isoscope.objectives.protocol import Batch, Direction, Forward, Indices, Objective, Place, Scored, Tally, Task

__all__ = ["Batch", "Direction", "Forward", "Indices", "Objective", "Place", "Scored", "Tally", "Task"]
