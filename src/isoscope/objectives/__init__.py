"""What runs are trained for. One file per kind of training; the loop knows them by their protocol only."""

from isoscope.objectives.protocol import Batch, Direction, Forward, Indices, Objective, Place, Scored, Tally, Task

__all__ = ["Batch", "Direction", "Forward", "Indices", "Objective", "Place", "Scored", "Tally", "Task"]
