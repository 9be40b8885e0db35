# SPDX-License-Identifier: Apache-2.0
"""What tools/demo leaves behind: a table, a picture, and one page that holds everything.

The page loads nothing. Colours differ in lightness, so the picture can be read in grey.
"""

import base64
from html import escape

WITHOUT, SALUS, INK, FAINT = "#b9c0c8", "#1f4e79", "#1d2329", "#66707a"
WIDTH, LABEL, BAR, ROW, HEAD, GAP = 860, 230, 500, 26, 44, 22  # of the picture, in pixels

STYLE = f"""
body {{ font: 16px/1.5 system-ui, sans-serif; color: {INK}; background: #fff; max-width: 920px; margin: 2em auto;
       padding: 0 1.2em; }}
h1 {{ margin-bottom: .2em; }} h2 {{ margin: 1.8em 0 .2em; }} p {{ margin: .4em 0; }}
.measure, .note, figcaption {{ color: {FAINT}; font-size: .9em; }}
.verdict {{ font-weight: 600; }}
table {{ border-collapse: collapse; width: 100%; margin: 1em 0; }}
th, td {{ text-align: left; padding: .3em .6em; border-bottom: 1px solid #dde1e5; }}
td.n, th.n {{ text-align: right; font-variant-numeric: tabular-nums; }}
figure {{ margin: 1em 0; }} img, svg {{ max-width: 100%; height: auto; }}
"""


def table(acts):
    lines = [f"  {'':<32}{'without':>12}{'with Salus':>12}"]
    for act in acts:
        best = min((bar for bar in act.bars if not bar.salus), key=lambda bar: bar.value)
        lines.append(f"  {act.title:<32}{best.text:>12}{act.bars[-1].text:>12}   {act.verdict}"
                     + (f"\n{'':>8}{act.price}" if act.price else ""))
    return "\n".join(lines)


def text(x, y, words, size=14, **style):
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x}" y="{y:.1f}" font-size="{size}"{more}>{escape(words)}</text>'


def panel(act, top):
    """The bars of one act. Bars start at 0."""
    longest = max(bar.value for bar in act.bars)
    parts = [text(0, top + 16, act.title, 17, font_weight=600),
             text(0, top + 34, act.measure, 12, fill=FAINT),
             text(WIDTH, top + 16, act.verdict, 14, text_anchor="end", font_weight=600)]
    for number, bar in enumerate(act.bars):
        y = top + HEAD + number * ROW
        width = max(BAR * bar.value / max(longest, 1e-9), 1)
        parts.append(text(LABEL - 10, y + 15, bar.label, text_anchor="end"))
        parts.append(f'<rect x="{LABEL}" y="{y}" width="{width:.1f}" height="{ROW - 6}" '
                     f'fill="{SALUS if bar.salus else WITHOUT}"/>')
        parts.append(text(LABEL + width + 8, y + 15, bar.text))
    return "\n".join(parts), top + HEAD + len(act.bars) * ROW + GAP


def picture(acts):
    """All acts as bars. Shorter is better."""
    parts, top = [], 10
    for number, act in enumerate(acts, 1):
        part, top = panel(act, top)
        parts.append(part)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 0 {WIDTH + 20} {top}" width="{WIDTH + 20}" '
            f'height="{top}" font-family="system-ui, sans-serif" fill="{INK}">\n'
            f'<rect x="-10" width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n")


def summary(acts):
    rows = []
    for number, act in enumerate(acts, 1):
        best = min((bar for bar in act.bars if not bar.salus), key=lambda bar: bar.value)
        rows.append(f'<tr><td>{number}. {escape(act.title)}</td><td class="n">{escape(best.text)}</td>'
                    f'<td class="n">{escape(act.bars[-1].text)}</td><td>{escape(act.verdict)}'
                    + (f'. {escape(act.price)}' if act.price else "") + '</td></tr>')
    return ('<table><tr><th>act</th><th class="n">without</th><th class="n">with Salus</th><th></th></tr>'
            + "".join(rows) + "</table>")


def section(number, act, folder):
    """An act in words, and the schedule of salusd. The schedule is a picture of its own, so that its names are its own."""
    drawn = base64.b64encode((folder / act.picture).read_bytes()).decode()
    return (f'<h2>{number}. {escape(act.title)}</h2><p>{escape(act.story)}</p>'
            f'<p><span class="verdict">{escape(act.verdict)}:</span> {escape(act.result)}.</p>'
            f'<p class="verdict">{escape(act.price)}</p><figure><img alt="jobs, lanes and memory over time" src="data:image/svg+xml;base64,{drawn}">'
            f'<figcaption>The schedule with Salus: jobs, lanes and memory over time.</figcaption></figure>')


def page(acts, note, folder):
    sections = "".join(section(number, act, folder) for number, act in enumerate(acts, 1))
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Salus in five acts</title>'
            f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
            f'<h1>Salus in five acts</h1><p>The same jobs without Salus and with it. Shorter bars are better. "Without" '
            f'in the table is the best of the other arrangements.</p>{summary(acts)}{picture(acts)}'
            f'<p class="note">{escape(note)}</p>{sections}</body></html>\n')
