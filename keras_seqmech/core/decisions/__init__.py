"""Decisions: how they are drawn, relaxed and learned.

`categorical` chooses one of S values, `bernoulli` opens gates; `sampling` draws
for both and says what an estimator makes of a draw; `penalties` are the
auxiliary losses, `statistics` metrics; `reports` collects what layers report.
"""
