"""The quorum of the metadata log as a pure state machine: no disk, no socket, no clock."""
