"""The pipeline's stages: a function per stage, called by DVC, MLflow projects and the command line."""
