"""Decisions: how they are drawn, relaxed and learned.

`choices` draws them and makes the `Decision` of a call; `deciding` is what a
layer does with it. `penalties` are the auxiliary losses, `statistics` metrics;
`reports` collects what layers report.
"""
