"""Where replicas and leaders should be: pure algorithms over a model of the cluster."""
