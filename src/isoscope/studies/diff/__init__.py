"""How two runs differ, or two sets of runs in pairs (`isoscope diff`)."""

QUESTION = "How do these runs differ?"
