"""The process of a node: its log, garbage collection, descriptors and event loop."""
