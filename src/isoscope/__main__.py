"""`python -m isoscope`: the command line."""

from isoscope.cli import main

main()
