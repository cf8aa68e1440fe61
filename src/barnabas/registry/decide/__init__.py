"""What a registry decides: the state that its topic describes, registration, compatibility, access. No I/O."""
