"""Abstention: does a classifier, or a model that answers in words, know when a photograph cannot be identified?

The measures are those of RealBirdID (arXiv 2603.27033): answerable (A) against unanswerable (UA) photographs, accuracy
against information gain, and calibration. Its files are not public, so birdlab reads a layout of its own and calls the
numbers RealBirdID-style.
"""
