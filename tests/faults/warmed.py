"""Imported once by the process that attempts are forked from: what each would work out anew, and all find the same."""

from isoscope.code import code_version

for stage in ("train", "extract", "measure", "explore", "geometry"):
    code_version(stage)
