"""Studies of training dynamics (Vázquez et al. 2022): loss change allocation by objective."""

QUESTION = "Which parts of the models learn, and when?"
