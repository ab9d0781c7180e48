"""`python -m isoscope`: the command line."""

import os
import sys

if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:  # noqa: PTH109 - pathlib may be hidden too
    del sys.path[0]  # the project's folder, where a random.py or torch.py would hide the library of that name

from isoscope.cli import main

main()
