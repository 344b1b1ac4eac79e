"""What mechanisms share: the time loop, decisions, cells, checks, masks."""
