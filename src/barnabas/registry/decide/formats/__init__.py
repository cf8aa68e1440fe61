"""The formats of schemas: how each is parsed, printed in one form, and compared with earlier versions."""
