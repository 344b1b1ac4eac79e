"""The one time loop of the package: `loop.scan` runs a step over the time axis.

`protocol` says what a step gets and returns. `loop` runs it over padded steps,
where all rows do all steps, and has the gradient that recomputes. `packed_loop`
runs it over packed ones (see `core.kept_steps`), where each row does its own
steps alone.
"""
