"""The half that knows no science: configuration, runs, tracking, search, stages, report and command line."""
