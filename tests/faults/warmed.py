"""Code versions, computed once by the parent process of all attempts, so that no attempt repeats the work."""

from isoscope.base.code_closure import code_version

for stage in ("train", "extract", "measure", "analyse", "geometry"):
    code_version(stage)
