/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scratch - learns how much scratch programs really take.
 *
 * A vendor may take more memory for an iteration than the program says: libraries have workspaces,
 * and pack what they multiply. The caller reports what an iteration took. From then on iterations
 * of this program need as much, and the lane grows before the next one runs.
 *
 * The first run of a program has a margin, which is the caller's guess. The margin counts for this
 * run only: afterwards the session needs what the run took.
 *
 * A guess is no reason to refuse an iteration. If it does not fit even alone, the iteration gets all
 * that there is beside the session's own bytes (admit.c), and nobody else is on the device. The same
 * holds for runs that took a little more than the device has. A program whose runs take much more
 * is refused.
 */
#include "core/engine/engine_impl.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* What runs of the program have taken so far; 0: unknown. */
static uint64_t known_bytes(const struct sal_iteration *it)
{
	return it->pace ? it->pace->scratch_bytes : 0;
}

/* A known program needs no margin. */
static void correct(struct sal_iteration *it)
{
	uint64_t known = known_bytes(it);

	if (known == 0)
		return;
	it->needs.ephem_bytes = larger(it->stated_bytes, known);
	it->margin_bytes = 0;
}

void sal_scratch_expect(struct sal_session *s, struct sal_iteration *it)
{
	if (it->margin_bytes > it->needs.ephem_bytes)
		it->margin_bytes = it->needs.ephem_bytes;
	it->stated_bytes = it->needs.ephem_bytes - it->margin_bytes;
	correct(it);
	s->seen_ephem_bytes = larger(s->seen_ephem_bytes, it->needs.ephem_bytes - it->margin_bytes);
}

void sal_scratch_learn(struct sal_engine *e, struct sal_session *s, const struct sal_iteration *it)
{
	struct sal_iteration *queued;
	struct sal_needs wants;
	bool had_margin = it->margin_bytes > 0;

	if (it->took_bytes > 0 && it->pace)
		it->pace->scratch_bytes = larger(it->pace->scratch_bytes, it->took_bytes);
	if (it->took_bytes > s->seen_ephem_bytes || had_margin) {
		s->seen_ephem_bytes = larger(s->seen_ephem_bytes, it->took_bytes);
		TAILQ_FOREACH(queued, &s->queue, queue_link)
			if (queued->pace == it->pace)
				correct(queued);
	}
	if (!had_margin || s->place != SAL_RESIDENT || s->closing)
		return;
	wants = sal_wants(e, s);
	if (wants.ephem_bytes < s->ephem_bytes)
		sal_resize_scratch(e, s, wants.ephem_bytes);
}
