"""Run the command line with `python -m isoscope`."""

import os
import sys

if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:  # noqa: PTH109 - pathlib may be hidden too
    del sys.path[0]  # the working folder: a random.py or torch.py there would hide the library

from isoscope.platform.cli import main

main()
