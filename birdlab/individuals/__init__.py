"""Individuals and behaviour: who was there, what they did, and what errors of models do to biological numbers."""
