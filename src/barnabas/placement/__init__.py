"""The best places of replicas and leaders: pure algorithms over a model of the cluster."""
