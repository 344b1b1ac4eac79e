"""Tasks whose exact answers are known: one module each."""
