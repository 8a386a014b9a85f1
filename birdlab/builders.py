"""Who makes which table of a study, and what each result depends on."""

from __future__ import annotations

#: Who makes which tables: ``module:function`` is called with the run and returns ``{table name: frame}``.
BUILDERS: dict[str, str] = {
    "media": "birdlab.readers.study:build",
    "frames": "birdlab.readers.study:build",
    "labels": "birdlab.readers.study:build",
    "second_labels": "birdlab.readers.study:build",
    "notices": "birdlab.readers.study:build",
    "predictions": "birdlab.inference.predict:build",
    "failures": "birdlab.inference.predict:build",
    "speed": "birdlab.inference.predict:build",
    "inference_notices": "birdlab.inference.predict:build",
    "matches": "birdlab.detection.study:build",
    "metrics_detection": "birdlab.detection.study:build",
    "ranks": "birdlab.detection.compare_study:build",
    "rank_agreement": "birdlab.detection.compare_study:build",
    "rank_moves": "birdlab.detection.compare_study:build",
    "model_agreement": "birdlab.detection.compare_study:build",
    "missed_by_all": "birdlab.detection.compare_study:build",
    "speed_points": "birdlab.detection.compare_study:build",
    "metrics_comparison": "birdlab.detection.compare_study:build",
    "factors": "birdlab.difficulty.factors:build",
    "frame_facts": "birdlab.difficulty.factors:build",
    "factor_settings": "birdlab.difficulty.factors:build",
    "factor_notices": "birdlab.difficulty.factors:build",
    "instances": "birdlab.difficulty.study:build_instances",
    "difficulty_bins": "birdlab.difficulty.study:build",
    "difficulty_factors": "birdlab.difficulty.study:build",
    "difficulty_slices": "birdlab.difficulty.study:build",
    "difficulty_pairs": "birdlab.difficulty.study:build",
    "error_types": "birdlab.difficulty.study:build",
    "missed_birds": "birdlab.difficulty.study:build",
    "calibration_bins": "birdlab.difficulty.study:build",
    "calibration": "birdlab.difficulty.study:build",
    "metrics_difficulty": "birdlab.difficulty.study:build",
    "coefficients": "birdlab.difficulty.model_study:build",
    "coefficient_sets": "birdlab.difficulty.model_study:build",
    "model_summary": "birdlab.difficulty.model_study:build",
    "model_checks": "birdlab.difficulty.model_study:build",
    "model_sheet": "birdlab.difficulty.model_study:build",
    "model_vif": "birdlab.difficulty.model_study:build",
    "model_correlations": "birdlab.difficulty.model_study:build",
    "model_ladder": "birdlab.difficulty.model_study:build",
    "model_loso": "birdlab.difficulty.model_study:build",
    "model_calibration": "birdlab.difficulty.model_study:build",
    "model_reliability": "birdlab.difficulty.model_study:build",
    "model_partial": "birdlab.difficulty.model_study:build",
    "model_missed": "birdlab.difficulty.model_study:build",
    "metrics_difficulty_model": "birdlab.difficulty.model_study:build",
    "taxa": "birdlab.abstention.inputs:build",
    "items": "birdlab.abstention.inputs:build",
    "answers": "birdlab.abstention.inputs:build",
    "image_scores": "birdlab.abstention.inputs:build",
    "classifier_failures": "birdlab.abstention.inputs:build",
    "abstention_alignment": "birdlab.abstention.inputs:build",
    "abstention_notices": "birdlab.abstention.inputs:build",
    "abstention_curves": "birdlab.abstention.study:build",
    "abstention_sweep": "birdlab.abstention.study:build",
    "abstention_pairs": "birdlab.abstention.study:build",
    "abstention_reasons": "birdlab.abstention.study:build",
    "abstention_confusion": "birdlab.abstention.study:build",
    "abstention_wrongly": "birdlab.abstention.study:build",
    "abstention_prompts": "birdlab.abstention.study:build",
    "abstention_permission": "birdlab.abstention.study:build",
    "abstention_contamination": "birdlab.abstention.study:build",
    "metrics_abstention": "birdlab.abstention.study:build",
    **dict.fromkeys(
        (
            *("colony_videos", "colony_boxes", "colony_events", "colony_tracks", "colony_identities", "colony_windows"),
            *("colony_human", "colony_combinations", "colony_notices"),
        ),
        "birdlab.individuals.inputs:build",
    ),
    **dict.fromkeys(
        ("action_clips", "keypoints", "keypoint_oks", "task_notices"), "birdlab.individuals.inputs:build_tasks"
    ),
    **dict.fromkeys(("tracking_scores", "metrics_tasks"), "birdlab.individuals.task_study:build"),
    **dict.fromkeys(
        (
            *("application", "application_summary", "application_tasks", "application_notices", "application_random"),
            *("application_draws", "error_budget", "across_combinations", "time_offset", "time_tolerance"),
            *("presence_lanes", "metrics_application"),
        ),
        "birdlab.individuals.study:build",
    ),
    **dict.fromkeys(
        ("followed", "follow_videos", "follow_windows", "follow_notices"), "birdlab.inference.follow_study:build"
    ),
    **dict.fromkeys(
        (
            *(
                "reid_clips",
                "reid_images",
                "reid_roles",
                "reid_candidates",
                "reid_notices",
                "reid_leaks",
                "reid_counts",
            ),
            *("reid_sizes",),
        ),
        "birdlab.individuals.reid.inputs:build",
    ),
    **dict.fromkeys(("reid_embeddings", "reid_embedding_notices"), "birdlab.inference.embed_study:build"),
    **dict.fromkeys(
        (
            *("ring_roster", "ring_colours", "ring_reads", "ring_calls", "ring_called", "ring_scores", "ring_segments"),
            *("ring_colour_scores", "ring_confusion", "ring_calibration", "ring_temperatures", "ring_together"),
            *("ring_notices", "metrics_rings"),
        ),
        "birdlab.individuals.rings.study:build",
    ),
    **dict.fromkeys(
        (
            *(
                "reid_outcomes",
                "reid_list_size",
                "reid_cmc",
                "reid_years",
                "reid_lookalikes",
                "reid_birds",
                "reid_risk",
            ),
            *("reid_refused", "metrics_reid"),
        ),
        "birdlab.individuals.reid.study:build",
    ),
    **dict.fromkeys(
        (
            *(
                "soundscape_recordings",
                "annotations",
                "soundscape_class_list",
                "soundscape_notices",
                "soundscape_by_month",
            ),
            *("soundscape_by_hour", "soundscape_counts", "soundscape_species", "soundscape_never", "soundscape_silent"),
        ),
        "birdlab.soundscapes.inputs:build",
    ),
    **dict.fromkeys(("sound_files", "sound_notices", "sound_runs"), "birdlab.inference.sound_study:build"),
    **dict.fromkeys(
        (
            *("soundscape_runs", "soundscape_scores", "soundscape_board", "soundscape_classes", "soundscape_named"),
            *(
                "soundscape_pr",
                "soundscape_calibration",
                "soundscape_instead",
                "soundscape_panels",
                "soundscape_events",
            ),
            *("soundscape_pairs", "soundscape_species_pairs", "soundscape_run_notices", "metrics_soundscapes"),
        ),
        "birdlab.soundscapes.study:build",
    ),
    "splits": "birdlab.training.study:build",
    "split_facts": "birdlab.training.study:build",
    "split_table": "birdlab.training.study:build",
    "split_shape": "birdlab.training.study:build",
    "leaks": "birdlab.training.study:build",
    "training_scores": "birdlab.training.study:build",
    "training_seeds": "birdlab.training.study:build",
    "training_variance": "birdlab.training.study:build",
    "training_curves": "birdlab.training.study:build",
    "training_cards": "birdlab.training.study:build",
    "metrics_training": "birdlab.training.study:build",
}
#: What a builder's result depends on, beside the recipe's ``data``: recipe sections and other tables.
DEPENDS: dict[str, tuple[str, ...]] = {
    "birdlab.readers.study:build": (),
    "birdlab.inference.predict:build": ("models", "frames"),
    "birdlab.detection.study:build": ("scoring", "models", "labels", "predictions"),
    "birdlab.detection.compare_study:build": ("matches",),
    "birdlab.difficulty.factors:build": ("scoring", "frames", "labels"),
    "birdlab.difficulty.study:build_instances": ("factors", "matches"),
    "birdlab.difficulty.study:build": ("difficulty", "instances"),
    "birdlab.difficulty.model_study:build": ("difficulty", "scoring", "instances"),
    "birdlab.abstention.inputs:build": ("abstention",),
    "birdlab.abstention.study:build": ("image_scores",),
    "birdlab.individuals.inputs:build": ("individuals",),
    "birdlab.individuals.inputs:build_tasks": ("individuals",),
    "birdlab.individuals.task_study:build": ("action_clips", "colony_tracks"),
    "birdlab.individuals.study:build": ("colony_tracks", "tracking_scores"),
    "birdlab.inference.follow_study:build": ("tracking", "predictions"),
    "birdlab.individuals.reid.inputs:build": ("reid",),
    "birdlab.inference.embed_study:build": ("reid_clips",),
    "birdlab.individuals.rings.study:build": ("reid_clips",),
    "birdlab.individuals.reid.study:build": ("reid_embeddings", "ring_calls"),
    "birdlab.soundscapes.inputs:build": ("soundscapes",),
    "birdlab.inference.sound_study:build": ("soundscapes", "soundscape_recordings"),
    "birdlab.soundscapes.study:build": ("soundscapes", "annotations", "sound_runs"),
    "birdlab.training.study:build": ("training", "frames", "labels"),
}
#: Notebooks without which a table takes no part in ``metrics``: it costs a look at every picture.
ONLY_WITH: dict[str, tuple[str, ...]] = {
    "metrics_comparison": ("02b_comparison",),
    "metrics_difficulty": ("03_difficulty", "04_difficulty_model"),
    "metrics_difficulty_model": ("04_difficulty_model",),
    "metrics_reid": ("05_reidentification",),
    "metrics_rings": ("05_reidentification",),
    "metrics_tasks": ("06_actions_keypoints_tracking",),
    "metrics_application": ("07_application",),
    "metrics_soundscapes": ("08_soundscapes",),
    "metrics_abstention": ("09_abstention",),
    "metrics_training": ("train_detector",),
}

#: Builders that start from something else than their room says.
_SUBJECTS = {
    "birdlab.individuals.reid": "reid",
    "birdlab.individuals.rings": "reid",
    "birdlab.inference.embed_study": "reid",
    "birdlab.individuals": "individuals",
    "birdlab.soundscapes": "soundscapes",
    "birdlab.inference.sound_study": "soundscapes",
    "birdlab.abstention": "abstention",
}


def subject(builder: str) -> str:
    """What a builder starts from: ``media`` (frames, labels, detectors), ``reid`` (clips of single birds, rings),
    ``individuals`` (birds followed by hand and by models), ``soundscapes`` (recordings, run files) or ``abstention`` (items,
    models that name birds).

    >>> subject("birdlab.detection.study:build"), subject("birdlab.individuals.reid.study:build")
    ('media', 'reid')
    """
    return next((name for room, name in _SUBJECTS.items() if builder.startswith(room)), "media")
