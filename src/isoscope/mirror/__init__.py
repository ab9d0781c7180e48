"""Records into MLflow. The only package that imports mlflow."""
