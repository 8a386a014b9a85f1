"""Train and compare honestly: splits without leaks, exports, fine-tuning that resumes, model cards."""
