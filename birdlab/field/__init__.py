"""Studies in the field without truth by hand: what camera traps saw, where, and how often."""
