"""Decisions: how they are drawn, relaxed and learned.

`categorical` chooses one of S values, `bernoulli` opens gates, each with the
base of layers that decide so; `sampling` draws for both and says what an
estimator makes of a draw. Either makes a `Decision` (`decision`), and
`deciding` is what a layer does with it: `penalties` are the auxiliary losses,
`statistics` metrics; `reports` collects what layers report.
"""
