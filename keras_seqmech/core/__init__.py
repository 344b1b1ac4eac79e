"""Parts that mechanisms share: time loop, decisions, cells, checks, masks."""
