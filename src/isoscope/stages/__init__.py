"""The pipeline's stages: one function each, which DVC, MLflow projects and a person at the prompt call alike."""
