/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each decision is compared with the next recorded one as it is made. The first difference ends the
 * replay. A trace may come from anywhere, so the engine gets an event only if the event keeps the
 * engine's contract.
 */
#include "recording/replay.h"

#include <stdlib.h>
#include <string.h>

#include "core/session.h"
#include "recording/trace_impl.h"

struct replay {
	const struct rec_trace *trace;
	struct rec_replay *out;
	struct sal_engine *engine; /* owned */
	struct sal_session **sessions; /* owned array; borrowed: engine; by id; NULL: not there */
	uint64_t opened;
	struct sal_iteration *iterations; /* owned; one for each submission */
	size_t submitted;
	size_t next; /* entry to look at */
	bool differs;
};

static bool is_same(const struct sal_record *a, const struct sal_record *b)
{
	const struct rec_field *f;

	for (f = rec_record_fields; f->name; f++)
		if (rec_field_get(f, a) != rec_field_get(f, b))
			return false;
	return a->what == b->what && a->lane == b->lane && a->reason == b->reason;
}

/* The decision that was recorded at this point; NULL if there was none. */
static const struct sal_record *recorded(const struct replay *p)
{
	const struct sal_record *r = &p->trace->entries[p->next].record;

	return p->next < p->trace->head->count && sal_record_is_decision(r) ? r : NULL;
}

/* NULL means no decision. */
static void differ(struct replay *p, const struct sal_record *was, const struct sal_record *is)
{
	p->differs = true;
	p->out->at = p->next;
	if (was)
		p->out->recorded = *was;
	if (is)
		p->out->replayed = *is;
}

static void on_decision(void *ctx, const struct sal_record *r, struct sal_session *s,
			struct sal_iteration *it)
{
	struct replay *p = ctx;
	const struct sal_record *was = recorded(p);

	(void)s;
	(void)it;
	if (p->differs || !sal_record_is_decision(r))
		return;
	if (!was || !is_same(was, r)) {
		differ(p, was, r);
		return;
	}
	p->next++;
	p->out->decisions++;
	p->out->grants += r->what == SAL_GRANT;
}

static struct sal_job job_of(const struct sal_trace_entry *entry)
{
	return (struct sal_job){
		.kind = (enum sal_kind)entry->job.kind,
		.weight_milli = entry->job.weight_milli,
		.priority = entry->job.priority,
		.total_ns = entry->record.value,
		.declared = { entry->record.persist_bytes, entry->record.ephem_bytes },
		.limit_bytes = entry->job.limit_bytes,
	};
}

static bool open_session(struct replay *p, const struct sal_trace_entry *entry)
{
	struct sal_job job = job_of(entry);

	if (entry->record.session != p->opened + 1)
		return false;
	p->opened++;
	return sal_engine_open(p->engine, entry->record.now_ns, &job, NULL, &p->sessions[p->opened],
			       NULL) >= 0;
}

static void submit(struct replay *p, const struct sal_record *r, struct sal_session *s)
{
	struct sal_iteration *it = &p->iterations[p->submitted++];

	it->id = r->iteration;
	it->needs = (struct sal_needs){ r->persist_bytes, r->ephem_bytes };
	it->grow_bytes = r->grow_bytes;
	it->expected_ns = r->value;
	sal_engine_submit(p->engine, r->now_ns, s, it);
}

static bool copied(struct replay *p, const struct sal_record *r, struct sal_session *s)
{
	bool last = s->closing;
	bool in = r->what == SAL_PAGED_IN || r->what == SAL_PAGE_IN_FAILED;

	if (s->place != (in ? SAL_PAGING_IN : SAL_PAGING_OUT))
		return false;
	if (r->what == SAL_PAGED_IN)
		sal_engine_paged_in(p->engine, r->now_ns, s);
	else if (r->what == SAL_PAGED_OUT)
		sal_engine_paged_out(p->engine, r->now_ns, s);
	else if (in)
		sal_engine_page_in_failed(p->engine, r->now_ns, s);
	else
		sal_engine_page_out_failed(p->engine, r->now_ns, s);
	if (last)
		p->sessions[r->session] = NULL;
	return true;
}

static bool done(struct replay *p, const struct sal_record *r, struct sal_session *s)
{
	bool last = s->closing;

	if (!s->running || s->running->id != r->iteration)
		return false;
	sal_engine_done(p->engine, r->now_ns, s, r->value);
	if (last)
		p->sessions[r->session] = NULL;
	return true;
}

static bool close_session(struct replay *p, const struct sal_record *r, struct sal_session *s)
{
	bool stays = s->running || s->place == SAL_PAGING_IN || s->place == SAL_PAGING_OUT;

	if (s->closing)
		return false;
	sal_engine_close(p->engine, r->now_ns, s);
	if (!stays)
		p->sessions[r->session] = NULL;
	return true;
}

static bool put_of_session(struct replay *p, const struct sal_trace_entry *entry,
			   struct sal_session *s)
{
	const struct sal_record *r = &entry->record;
	struct sal_job job;

	switch (r->what) {
	case SAL_CLOSE:
		return close_session(p, r, s);
	case SAL_DONE:
		return done(p, r, s);
	case SAL_PAGED_OUT:
	case SAL_PAGED_IN:
	case SAL_PAGE_OUT_FAILED:
	case SAL_PAGE_IN_FAILED:
		return copied(p, r, s);
	case SAL_DECLARE:
		job = job_of(entry);
		sal_engine_declare(p->engine, r->now_ns, s, &job);
		return true;
	case SAL_NEED:
		sal_engine_need(p->engine, r->now_ns, s, r->value);
		return true;
	case SAL_SUBMIT:
		submit(p, r, s);
		return true;
	case SAL_PAUSE:
		sal_engine_pause(p->engine, r->now_ns, s);
		return true;
	case SAL_RESUME:
		sal_engine_resume(p->engine, r->now_ns, s);
		return true;
	default:
		return false;
	}
}

static bool put_event(struct replay *p, const struct sal_trace_entry *entry)
{
	const struct sal_record *r = &entry->record;
	const struct sal_policy *policy;

	switch (r->what) {
	case SAL_OPEN:
		return open_session(p, entry);
	case SAL_TICK:
		sal_engine_tick(p->engine, r->now_ns);
		return true;
	case SAL_SET_TUNING:
		sal_engine_set_tuning(p->engine, r->now_ns, &entry->tuning);
		return true;
	case SAL_SET_PARAM:
		sal_engine_set_param(p->engine, r->now_ns,
				     r->iteration < SAL_PARAMS_MAX ? (uint32_t)r->iteration
								   : SAL_PARAMS_MAX,
				     r->value);
		return true;
	case SAL_SET_POLICY:
		policy = sal_policy_numbered(r->value);
		return policy && sal_engine_set_policy(p->engine, r->now_ns, policy, NULL) >= 0;
	default:
		return r->session > 0 && r->session <= p->opened && p->sessions[r->session] &&
		       put_of_session(p, entry, p->sessions[r->session]);
	}
}

static int set_up(struct replay *p, struct sal_err *err)
{
	const struct sal_trace_head *head = p->trace->head;
	struct sal_engine_config cfg = {
		.capacity_bytes = head->capacity_bytes,
		.policy = sal_policy_find(head->policy),
		.tuning = head->tuning,
		.emit = on_decision,
		.emit_ctx = p,
	};

	if (head->dropped > 0)
		return sal_err_set(err, SAL_FAILED_PRECONDITION,
				   "its first %llu records were dropped; a replay must start from "
				   "an empty engine",
				   (unsigned long long)head->dropped);
	if (!cfg.policy)
		return sal_err_set(err, SAL_DATA_LOSS, "no policy \"%s\"", head->policy);
	p->sessions = calloc(head->count + 2, sizeof(struct sal_session *));
	p->iterations = calloc(head->count + 1, sizeof(*p->iterations));
	if (!p->sessions || !p->iterations)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	return sal_engine_create(&cfg, &p->engine, err);
}

static int step(struct replay *p, struct sal_err *err)
{
	const struct sal_trace_entry *entry = &p->trace->entries[p->next];

	if (sal_record_is_decision(&entry->record)) {
		differ(p, &entry->record, NULL);
		return SAL_OK;
	}
	p->next++;
	p->out->events++;
	if (!put_event(p, entry))
		return sal_err_set(err, SAL_DATA_LOSS, "entry %zu, %s, could not have happened",
				   p->next - 1, sal_what_name(entry->record.what));
	return sal_engine_check(p->engine, err) ? SAL_OK : -SAL_INTERNAL;
}

int rec_replay_run(const struct rec_trace *trace, struct rec_replay *out, struct sal_err *err)
{
	struct replay p = { .trace = trace, .out = out };
	int rc;

	memset(out, 0, sizeof(*out));
	rc = set_up(&p, err);
	while (rc >= 0 && !p.differs && p.next < trace->head->count)
		rc = step(&p, err);
	out->identical = rc >= 0 && !p.differs;
	sal_engine_destroy(p.engine);
	free(p.sessions);
	free(p.iterations);
	return rc < 0 ? rc : SAL_OK;
}
