"""Colour rings: what they are called, how they are read from clips, and which bird wears them."""
