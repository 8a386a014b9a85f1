"""Every figure of the report, one module per chapter, each drawn from a saved table and nothing else."""
