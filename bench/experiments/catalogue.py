# SPDX-License-Identifier: Apache-2.0
"""The experiments of bench/evaluate, in their order. A module has a docstring whose first line is the title, ESTIMATE_S
(seconds of the quick run and of the full run), FIGURE (what it redraws), and measure(stage, record, options)."""

import arrivals
import beside
import fair
import memory
import overhead
import oversubscribed
import packing
import pytorch
import search
import sessions
import timeline
import urgent

EXPERIMENTS = {module.__name__: module
               for module in (memory, overhead, pytorch, arrivals, timeline, fair, packing, search, beside, urgent,
                              oversubscribed, sessions)}
