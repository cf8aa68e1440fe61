"""Groups of the classic protocol: members join in rounds, and their leader computes the assignment."""
