"""What a person gives a command: options and arguments that several tools share."""
