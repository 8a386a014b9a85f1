"""The demo: a made study with known truth, two detectors, a segmenter and a segmenter of rings trained on other made
sessions.

Nothing here was photographed and no bird was ever alive; it is called "made" wherever it is shown.
:func:`birdlab.demo.make.make_study` writes the study, :func:`birdlab.demo.lessons.make_lessons` the pictures that the models
learned from; ``birdlab run reports/train_heron.yaml`` (wren, dunlin, ringlet) trains them anew.
"""
