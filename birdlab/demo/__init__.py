"""The demo: a made study with known truth, and two detectors trained on other made sessions.

Nothing here was photographed and no bird was ever alive; it is called "made" wherever it is shown.
:func:`birdlab.demo.make.make_study` writes the study; ``python -m birdlab.demo.train`` trains the detectors anew.
"""
