/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/top.h"

#include <stdlib.h>
#include <string.h>

#include "cli/ask.h"

static const struct cli_reading *nth_last(const struct cli_meter *m, size_t n)
{
	size_t kept = m->count < CLI_TOP_SAMPLES ? m->count : CLI_TOP_SAMPLES;

	return n < kept ? &m->at[(m->count - 1 - n) % CLI_TOP_SAMPLES] : NULL;
}

void cli_meter_add(struct cli_meter *m, struct cli_reading reading, double least_s)
{
	const struct cli_reading *last = nth_last(m, 0);

	if (last && (reading.now_s <= last->now_s || reading.used_s < last->used_s))
		m->count = 0; /* of another daemon */
	else if (last && reading.now_s - last->now_s < least_s)
		return;
	m->at[m->count++ % CLI_TOP_SAMPLES] = reading;
}

bool cli_meter_growth(const struct cli_meter *m, struct cli_reading *out)
{
	const struct cli_reading *last = nth_last(m, 0), *first = nth_last(m, 1), *earlier;
	size_t n;

	if (!first)
		return false;
	for (n = 2; (earlier = nth_last(m, n)); n++) {
		if (last->now_s - earlier->now_s > CLI_TOP_WINDOW_S * 1.1)
			break;
		first = earlier;
	}
	*out = (struct cli_reading){ last->now_s - first->now_s, last->used_s - first->used_s,
				     last->iterations - first->iterations };
	return true;
}

double cli_meter_share(const struct cli_meter *m, size_t n)
{
	const struct cli_reading *to = nth_last(m, n), *from = nth_last(m, n + 1);

	return from ? (to->used_s - from->used_s) / (to->now_s - from->now_s) : -1;
}

/* Has the session work that it may run? */
static bool has_work(const json_t *session)
{
	const char *state = cli_json_text(session, "state");

	if (json_is_true(json_object_get(session, "paused")))
		return false;
	return cli_json_number(session, "queued") > 0 || strcmp(state, "running") == 0 ||
	       strcmp(state, "ready") == 0;
}

const struct cli_top_job *cli_top_find(const struct cli_top *top, uint64_t id)
{
	size_t i;

	for (i = 0; i < top->job_count; i++)
		if (top->jobs[i].id == id)
			return &top->jobs[i];
	return NULL;
}

static double share_of(const struct cli_top_job *job)
{
	struct cli_reading grown;

	return cli_meter_growth(&job->meter, &grown) ? grown.used_s / grown.now_s : 0;
}

static double key_of(const struct cli_top_job *job, enum cli_top_sort sort)
{
	switch (sort) {
	case CLI_SORT_SHARE:
		return share_of(job);
	case CLI_SORT_WAIT:
		return cli_json_number(job->session, "waited_s");
	case CLI_SORT_MEMORY:
		return cli_json_number(job->session, "held_bytes");
	default:
		return 0;
	}
}

static int compare(const void *a, const void *b, void *ctx)
{
	const struct cli_top_job *x = a, *y = b;
	enum cli_top_sort sort = *(const enum cli_top_sort *)ctx;
	double left = key_of(x, sort), right = key_of(y, sort);
	int names = 0;

	if (left != right)
		return left > right ? -1 : 1; /* the largest first */
	if (sort == CLI_SORT_NAME)
		names = strcmp(cli_json_text(x->session, "name"),
			       cli_json_text(y->session, "name"));
	if (names)
		return names;
	return x->id < y->id ? -1 : x->id > y->id;
}

void cli_top_sort(struct cli_top *top)
{
	if (top->job_count > 0)
		qsort_r(top->jobs, top->job_count, sizeof(*top->jobs), compare, &top->sort);
}

const char *cli_top_sort_name(enum cli_top_sort sort)
{
	static const char *const names[CLI_SORTS] = { "id", "share", "wait", "memory", "name" };

	return names[sort];
}

void cli_top_move(struct cli_top *top, int by)
{
	const struct cli_top_job *job = cli_top_find(top, top->chosen);
	long at = job ? (long)(job - top->jobs) + by : 0;

	if (top->job_count == 0)
		return;
	if (at >= (long)top->job_count)
		at = (long)top->job_count - 1;
	top->chosen = top->jobs[at > 0 ? at : 0].id;
}

static void read_job(const struct cli_top *top, struct cli_top_job *job, const json_t *session,
		     double now_s, double weights)
{
	const struct cli_top_job *before;

	job->id = cli_json_count(session, "id");
	job->session = session;
	job->due = has_work(session) && weights > 0 ? cli_json_number(session, "weight") / weights
						    : -1;
	before = cli_top_find(top, job->id);
	if (before)
		job->meter = before->meter;
	cli_meter_add(&job->meter,
		      (struct cli_reading){ now_s, cli_json_number(session, "used_s"),
					    cli_json_number(session, "iterations") },
		      top->least_s);
}

static void read_lanes(struct cli_top *top, const json_t *lanes, double now_s)
{
	size_t i;

	for (i = 0; i < json_array_size(lanes); i++) {
		const json_t *lane = json_array_get(lanes, i);
		double index = cli_json_number(lane, "index");

		if (index >= 0 && index < CLI_TOP_LANES)
			cli_meter_add(&top->lanes[(size_t)index],
				      (struct cli_reading){ now_s, cli_json_number(lane, "busy_s"),
							    cli_json_number(lane, "iterations") },
				      top->least_s);
	}
}

bool cli_top_update(struct cli_top *top, json_t *take_reply)
{
	const json_t *sessions = json_object_get(take_reply, "sessions");
	const json_t *device = json_object_get(take_reply, "device");
	double now_s = cli_json_number(device, "now_s"), weights = 0;
	size_t count = json_array_size(sessions), i;
	struct cli_top_job *jobs = calloc(count + 1, sizeof(*jobs));

	if (!jobs) {
		json_decref(take_reply);
		return false;
	}
	for (i = 0; i < count; i++)
		if (has_work(json_array_get(sessions, i)))
			weights += cli_json_number(json_array_get(sessions, i), "weight");
	for (i = 0; i < count; i++)
		read_job(top, &jobs[i], json_array_get(sessions, i), now_s, weights);
	cli_meter_add(&top->device,
		      (struct cli_reading){ now_s, cli_json_number(device, "busy_s"),
					    cli_json_number(device, "iterations") },
		      top->least_s);
	read_lanes(top, json_object_get(take_reply, "lanes"), now_s);
	free(top->jobs);
	json_decref(top->reply);
	top->reply = take_reply;
	top->jobs = jobs;
	top->job_count = count;
	cli_top_sort(top);
	if (!cli_top_find(top, top->chosen))
		top->chosen = count ? top->jobs[0].id : 0;
	return true;
}

void cli_top_fini(struct cli_top *top)
{
	free(top->jobs);
	json_decref(top->reply);
	json_decref(top->policies);
	memset(top, 0, sizeof(*top));
}
