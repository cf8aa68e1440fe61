"""Groups of the share protocol (KIP-932): members may share a partition, and each record goes to one of them."""
