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

struct known_pace {
	bool is_known; /* the program was submitted */
	struct sal_pace pace;
};

struct replay {
	const struct rec_trace *trace;
	const struct sal_policy *const *policies; /* borrowed; those that are not built in */
	struct rec_replay *out;
	struct sal_engine *engine; /* owned */
	struct sal_session **sessions; /* owned array; borrowed: engine; by id; NULL: not there */
	uint64_t opened;
	struct sal_iteration *iterations; /* owned; one for each submission */
	size_t submitted;
	struct known_pace *paces; /* owned; by the number of the program, from 1 */
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
		.kind_undeclared = entry->job.kind_undeclared,
		.weight_milli = entry->job.weight_milli,
		.priority = entry->job.priority,
		.total_ns = entry->record.value,
		.deadline_ns = entry->job.deadline_ns,
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

/*
 * What is known about a program. A daemon may know it from former runs, so the first submission
 * tells. NULL: nothing is known, or the number is out of range.
 */
static struct sal_pace *pace_of(struct replay *p, const struct sal_trace_work *work)
{
	uint64_t number = work->program;

	if (number == 0 || number > p->trace->head->count)
		return NULL;
	if (!p->paces[number].is_known) {
		p->paces[number].is_known = true;
		p->paces[number].pace = work->pace;
	}
	return &p->paces[number].pace;
}

static void submit(struct replay *p, const struct sal_trace_entry *entry, struct sal_session *s)
{
	struct sal_iteration *it = &p->iterations[p->submitted++];
	const struct sal_record *r = &entry->record;

	it->program = entry->work.program;
	it->pace = pace_of(p, &entry->work);
	it->id = r->iteration;
	it->needs = (struct sal_needs){ r->persist_bytes, r->ephem_bytes };
	it->grow_bytes = r->grow_bytes;
	it->margin_bytes = entry->work.margin_bytes;
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

static bool done(struct replay *p, const struct sal_trace_entry *entry, struct sal_session *s)
{
	const struct sal_record *r = &entry->record;
	bool last = s->closing;

	if (!s->running || s->running->id != r->iteration)
		return false;
	s->running->busy_ns = entry->busy_ns;
	s->running->took_bytes = entry->took_bytes;
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
		return done(p, entry, s);
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
		submit(p, entry, s);
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

static const struct sal_policy *find_policy(const struct replay *p, const char *name)
{
	const struct sal_policy *const *policy;

	for (policy = p->policies; policy && *policy; policy++)
		if (strcmp(sal_policy_name(*policy), name) == 0)
			return *policy;
	return sal_policy_find(name);
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
		policy = find_policy(p, rec_entry_policy(entry));
		return policy && sal_engine_set_policy(p->engine, r->now_ns, policy, NULL) >= 0;
	default:
		return r->session > 0 && r->session <= p->opened && p->sessions[r->session] &&
		       put_of_session(p, entry, p->sessions[r->session]);
	}
}

static int check_policy(const struct replay *p, const char *name, struct sal_err *err)
{
	if (find_policy(p, name))
		return SAL_OK;
	return sal_err_set(err, SAL_DATA_LOSS,
			   "it was made under the policy \"%s\", which is not built in; name its "
			   "file: --policy ./FILE.so",
			   name);
}

/* All policies of the trace must be known before the first decision is compared. */
static int check_policies(const struct replay *p, struct sal_err *err)
{
	int rc = check_policy(p, p->trace->head->policy, err);
	uint64_t i;

	for (i = 0; rc >= 0 && i < p->trace->head->count; i++)
		if (p->trace->entries[i].record.what == SAL_SET_POLICY)
			rc = check_policy(p, rec_entry_policy(&p->trace->entries[i]), err);
	return rc;
}

static int set_up(struct replay *p, struct sal_err *err)
{
	const struct sal_trace_head *head = p->trace->head;
	struct sal_engine_config cfg = {
		.capacity_bytes = head->capacity_bytes,
		.policy = find_policy(p, head->policy),
		.tuning = head->tuning,
		.emit = on_decision,
		.emit_ctx = p,
	};

	if (head->dropped > 0)
		return sal_err_set(err, SAL_FAILED_PRECONDITION,
				   "its first %llu records were dropped; a replay must start from "
				   "an empty engine",
				   (unsigned long long)head->dropped);
	if (check_policies(p, err) < 0)
		return -SAL_DATA_LOSS;
	p->sessions = calloc(head->count + 2, sizeof(struct sal_session *));
	p->iterations = calloc(head->count + 1, sizeof(*p->iterations));
	p->paces = calloc(head->count + 1, sizeof(*p->paces));
	if (!p->sessions || !p->iterations || !p->paces)
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

int rec_replay_run(const struct rec_trace *trace, const struct sal_policy *const *policies,
		   struct rec_replay *out, struct sal_err *err)
{
	struct replay p = { .trace = trace, .policies = policies, .out = out };
	int rc;

	memset(out, 0, sizeof(*out));
	rc = set_up(&p, err);
	while (rc >= 0 && p.engine && !p.differs && p.next < trace->head->count)
		rc = step(&p, err);
	out->identical = rc >= 0 && !p.differs;
	sal_engine_destroy(p.engine);
	free(p.sessions);
	free(p.iterations);
	free(p.paces);
	return rc < 0 ? rc : SAL_OK;
}
