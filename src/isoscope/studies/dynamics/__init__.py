"""Studies of training dynamics (Vázquez et al. 2022): loss change allocation by objective."""

QUESTION = "Which parts of the models learn, and when?"
TERMS = {
    "Allocation": (
        "The part of a change of the loss that is due to a group of parameters: the integral of gradient × "
        "movement along the path of training. Negative helps."
    ),
    "emb, pos, query, key, value, out, W1, W2, other": (
        "Groups of parameters of an allocation: word table, position table, the parts of attention, both matrices "
        "of the feed-forward block, and the rest (such as the output's bias)."
    ),
}
"""Term of its part of the page → what it means."""
