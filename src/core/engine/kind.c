/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kind - which kind a session is of: declared, implied by a deadline, or found.
 *
 * If nobody declared the kind, the engine finds it, under policies that keep kinds apart. It looks
 * at the session's iterations and gaps in windows of time. A gap is the time without work. A gap
 * that is too long for a reserved turn is a pause. In a window, a session looks like inference if
 *
 *     - every iteration is short;
 *     - the session is idle for most of the time, were it alone on the device. The time in which
 *       its iterations wait for others does not count;
 *     - it has several pauses, and none of them makes up most of the idle time;
 *     - its memory does not grow, and it runs no new program: it has started up.
 *
 * A session looks like training if an iteration is long, or if it is idle for less than half of the
 * time. Between the two the kind stays as it is. The kind changes only after several windows in a
 * row. So neither a start with many short programs nor a slow input for a moment is misjudged.
 */
#include "core/engine/engine_impl.h"

#define WINDOW_NS UINT64_C(1000000000) /* shortest window */
#define WINDOW_MAX_NS (10 * WINDOW_NS) /* then the window ends, even with few requests */
#define REQUESTS_MIN 8u
#define SHORT_NS UINT64_C(50000000) /* an iteration of inference is not longer */
#define LONG_NS (2 * SHORT_NS) /* an iteration of training may be */
#define IDLE_PERCENT 70u
#define BUSY_PERCENT 50u
#define AGREES_MIN 2u /* windows that make training inference */
#define DIFFERS_MIN 3u /* windows that make it training again */

enum look {
	LOOKS_LIKE_NEITHER,
	LOOKS_LIKE_INFERENCE,
	LOOKS_LIKE_TRAINING
};

void sal_take_job(struct sal_session *s, const struct sal_job *job)
{
	s->job = *job;
	if (job->deadline_ns) {
		s->job.kind = SAL_INFERENCE;
		s->job.kind_undeclared = false;
	}
}

static bool may_change(const struct sal_engine *e, const struct sal_session *s)
{
	return s->job.kind_undeclared && e->policy->shares;
}

/* Start a window at the end of an iteration. */
static void start_window(struct sal_engine *e, struct sal_session *s)
{
	struct sal_rhythm *r = &s->rhythm;

	*r = (struct sal_rhythm){
		.start_ns = e->now_ns,
		.start_bytes = s->tracked_bytes,
		.agrees = r->agrees,
		.differs = r->differs,
	};
}

void sal_note_gap(struct sal_engine *e, struct sal_session *s, const struct sal_iteration *it)
{
	struct sal_rhythm *r = &s->rhythm;
	uint64_t gap_ns = e->now_ns - s->idle_since_ns;

	if (!r->start_ns || !may_change(e, s))
		return;
	r->idle_ns += gap_ns;
	if (gap_ns > r->gap_max_ns)
		r->gap_max_ns = gap_ns;
	/* Programs shorter than short_ns need no lane of their own. */
	if (gap_ns > e->tuning.anticipate_ns && it->expected_ns >= e->tuning.short_ns)
		r->requests++;
}

static enum look look_at(const struct sal_session *s)
{
	const struct sal_rhythm *r = &s->rhythm;
	uint64_t idle_percent = r->idle_ns / ((r->idle_ns + r->used_ns) / 100 + 1);

	if (r->iteration_max_ns > LONG_NS || idle_percent < BUSY_PERCENT)
		return LOOKS_LIKE_TRAINING;
	if (r->iteration_max_ns <= SHORT_NS && idle_percent >= IDLE_PERCENT &&
	    r->requests >= REQUESTS_MIN && r->gap_max_ns <= r->idle_ns / 2 &&
	    s->tracked_bytes <= r->start_bytes + r->start_bytes / 8)
		return LOOKS_LIKE_INFERENCE;
	return LOOKS_LIKE_NEITHER;
}

static void change_kind(struct sal_engine *e, struct sal_session *s, enum sal_kind kind)
{
	s->lane->kind_count[s->job.kind]--;
	s->job.kind = kind;
	s->lane->kind_count[s->job.kind]++;
	s->rhythm.agrees = s->rhythm.differs = 0;
	e->memory_changed = true;
	e->lanes_over = true;
}

static void end_window(struct sal_engine *e, struct sal_session *s)
{
	enum look look = look_at(s);
	struct sal_rhythm *r = &s->rhythm;

	r->agrees = look == LOOKS_LIKE_INFERENCE ? r->agrees + 1 : 0;
	r->differs = look == LOOKS_LIKE_TRAINING ? r->differs + 1 : 0;
	if (s->job.kind == SAL_TRAINING && r->agrees >= AGREES_MIN)
		change_kind(e, s, SAL_INFERENCE);
	else if (s->job.kind == SAL_INFERENCE && r->differs >= DIFFERS_MIN)
		change_kind(e, s, SAL_TRAINING);
	start_window(e, s);
}

void sal_find_kind(struct sal_engine *e, struct sal_session *s, const struct sal_iteration *it,
		   uint64_t used_ns)
{
	struct sal_rhythm *r = &s->rhythm;
	uint64_t age_ns = e->now_ns - r->start_ns;

	if (!may_change(e, s))
		return;
	if (!r->start_ns || it->expected_ns == 0) { /* the first run of a program */
		r->agrees = 0;
		start_window(e, s);
		return;
	}
	r->used_ns += used_ns;
	if (used_ns > r->iteration_max_ns)
		r->iteration_max_ns = used_ns;
	if (age_ns >= WINDOW_MAX_NS || (age_ns >= WINDOW_NS && (r->requests >= REQUESTS_MIN ||
								look_at(s) == LOOKS_LIKE_TRAINING)))
		end_window(e, s);
}
