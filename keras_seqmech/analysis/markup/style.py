"""The style of a picture.

Everything is inside `.seqmech`, and classes begin with `sq-`: the style changes
nothing of the page around it, and pages have no `sq-` classes of their own.
Text has a contrast of at least 4.5 in light and in dark colors.
"""

STYLE = """
.seqmech {
  --page: #ffffff; --ink: #1b1f24; --quiet: #57606a; --line: #c9d1d9;
  --accent: #0b5cad;
  color-scheme: light dark;
  box-sizing: border-box; max-width: 64rem; margin: 0; padding: 1rem;
  border: 1px solid var(--line); border-radius: 8px;
  background: var(--page); color: var(--ink);
  font: 1rem/1.4 system-ui, "Segoe UI", Roboto, "Noto Sans", "PingFang SC",
    "Microsoft YaHei", "Noto Sans CJK SC", sans-serif;
  overflow-wrap: anywhere; text-align: start;
}
@media (prefers-color-scheme: dark) {
  .seqmech {
    --page: #14181d; --ink: #e8edf2; --quiet: #a3adb8; --line: #3b444e;
    --accent: #6db3ff;
  }
}
.seqmech p { margin: 0; padding: 0; color: inherit; }
.seqmech .sq-title { font-size: 1.15rem; font-weight: 600; }
.seqmech .sq-track { margin-block-start: 1rem; }
.seqmech .sq-title + .sq-track { margin-block-start: .6rem; }
.seqmech style + .sq-track { margin-block-start: 0; }
.seqmech .sq-heading { font-weight: 600; }
.seqmech .sq-legend { color: var(--quiet); font-size: .8rem; }
.seqmech .sq-row { margin-block: .3rem .6rem; }
.seqmech .sq-summary { color: var(--quiet); font-size: .85rem; }
.seqmech .sq-name {
  font-weight: 600; font-size: .9rem; margin-inline-end: .4em;
}
.seqmech .sq-tokens {
  display: flex; flex-wrap: wrap; align-items: flex-start; row-gap: .5rem;
  margin-block-start: .2rem;
}
.seqmech .sq-chart { display: flex; align-items: flex-start; gap: .3rem; }
.seqmech .sq-chart .sq-tokens { flex: 1; min-inline-size: 0; }
.seqmech .sq-axis, .seqmech .sq-ticks, .seqmech .sq-steps {
  color: var(--quiet); font-size: .7rem; line-height: 1.2;
}
.seqmech .sq-axis {
  flex: none; writing-mode: vertical-rl; transform: rotate(180deg);
  text-align: center; white-space: nowrap;
}
.seqmech .sq-cell {
  display: flex; flex-direction: column; align-items: stretch;
  min-inline-size: 1.6rem; max-inline-size: 100%; text-align: center;
}
.seqmech .sq-token {
  unicode-bidi: plaintext; white-space: pre-wrap; align-self: center;
  margin: 0 1px; padding: .05rem .25rem; border: 1px solid transparent;
  border-radius: 4px; color: var(--ink); text-decoration: none;
  font-size: 1.1rem; max-inline-size: 100%; box-sizing: border-box;
  background: color-mix(
    in srgb, var(--accent) calc(var(--tint, 0) * 30%), transparent);
}
.seqmech mark.sq-token { border: 1px solid var(--accent); font-weight: 600; }
.seqmech s.sq-token { color: var(--quiet); text-decoration: line-through; }
.seqmech .sq-number, .seqmech .sq-label {
  color: var(--quiet); font-size: .7rem; line-height: 1.2;
  font-variant-numeric: tabular-nums;
}
.seqmech .sq-label { font-size: .8rem; padding-inline: .25rem; }
.seqmech .sq-lanes {
  display: block; position: relative; block-size: calc(var(--lanes) * 8px);
  margin-block: 2px;
}
.seqmech .sq-lanes i {
  position: absolute; inset-block-start: calc(var(--lane) * 8px + 2px);
  inset-inline: 0; block-size: 4px; background: var(--accent);
}
.seqmech .sq-lanes i.end {
  inset-inline-end: calc(100% - var(--share, 1) * 75%);
  border-start-end-radius: 2px; border-end-end-radius: 2px;
}
.seqmech .sq-lanes i.start { inset-inline-start: calc(50% - 4px); }
.seqmech .sq-lanes i.start.end { inset-inline-end: calc(50% - 4px); }
.seqmech .sq-lanes i.start::before {
  content: ""; position: absolute; inset-block-start: -2px;
  inset-inline-start: 0; inline-size: 8px; block-size: 8px;
  border-radius: 50%; background: inherit;
}
.seqmech .sq-column {
  display: block; position: relative; block-size: 2rem; margin-block-start: 2px;
  border-block-end: 1px solid var(--line);
}
.seqmech .sq-column::before {
  content: ""; position: absolute; inset-inline: 0;
  inset-block-end: calc(var(--dashed) * 100%);
  border-block-start: 1px dashed var(--line);
}
.seqmech .sq-column i {
  position: absolute; inset-inline: calc(50% - .4rem); inset-block-end: 0;
  block-size: calc(var(--height) * 100%); background: var(--accent);
  border-radius: 2px 2px 0 0;
}
.seqmech .sq-panel { display: flex; gap: .3rem; margin-block: .5rem; }
.seqmech .sq-ticks {
  flex: none; inline-size: 3.2rem; text-align: end; display: flex;
  flex-direction: column; justify-content: space-between;
  font-variant-numeric: tabular-nums;
}
.seqmech .sq-panel svg {
  flex: 1; min-inline-size: 0; block-size: 6rem; overflow: visible;
  border-block-end: 1px solid var(--line);
}
.seqmech .sq-panel path {
  fill: none; vector-effect: non-scaling-stroke; stroke-linecap: round;
  stroke-linejoin: round; stroke: var(--quiet); stroke-width: 1.2px;
}
.seqmech .sq-panel path.sq-dots {
  stroke: var(--accent); stroke-width: 6px;
}
.seqmech .sq-panel path.sq-dashed {
  stroke: var(--line); stroke-dasharray: 4 4;
}
.seqmech p.sq-steps {
  display: flex; justify-content: space-between; padding-inline-start: 4.9rem;
}
@media print { .seqmech { print-color-adjust: exact; } }
"""

PAGE_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0; padding: 1rem; background: #f3f5f7; }
@media (prefers-color-scheme: dark) { body { background: #0b0e12; } }
body > .seqmech { margin-inline: auto; }
"""
