"""The errors a user meets: each one line, without a traceback."""


class InputError(Exception):
    """Something the user gave is wrong: one line that names the key, the value and what to do.

    The command line prints the line without a traceback and exits with code 2.
    """


class RunError(Exception):
    """A run failed at its own work, such as a loss that is no number: one line; the command line exits with code 1."""
