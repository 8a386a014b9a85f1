"""Soundscapes: run files of species per five seconds, scored against annotations as BirdCLEF 2019 does."""
