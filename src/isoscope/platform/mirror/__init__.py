"""Mirror records to MLflow. The only package that imports mlflow."""
