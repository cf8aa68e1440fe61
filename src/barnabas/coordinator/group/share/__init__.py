"""Groups of the share protocol (KIP-932): several members may read one partition, and each record goes to one of them."""
