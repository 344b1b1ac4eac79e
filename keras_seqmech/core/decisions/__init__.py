"""Decisions: how they are drawn, relaxed and learned.

`choices` draws them and makes the `Decision` of a call; `learning` is what a
layer does with it, `statistics` are its metrics. `reports` collects what layers
report.
"""
