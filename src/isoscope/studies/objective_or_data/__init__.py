"""Comparisons of studies of dynamics on several data: what decides the profiles of their runs?"""

QUESTION = "Does the objective or the data decide which parts lower the loss?"
