/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc - the engine allocates and frees nothing between submit and grant.
 *
 * Linked with --wrap for malloc, calloc, realloc and free. The wraps count the engine's calls.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/engine.h"
#include "core/policy.h"
#include "support/rng.h"

#define SESSIONS 40

/* The linker prescribes these names. NOLINTBEGIN(bugprone-reserved-identifier) */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

static uint64_t heap_calls;

void *__wrap_malloc(size_t size)
{
	heap_calls++;
	return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	heap_calls++;
	return __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	heap_calls++;
	return __real_realloc(p, size);
}

void __wrap_free(void *p)
{
	heap_calls++;
	__real_free(p);
}
/* NOLINTEND(bugprone-reserved-identifier) */

struct job {
	struct sal_session *session; /* borrowed: engine */
	struct sal_iteration it;
	bool submitted, running;
	int copying;
};

struct world {
	struct sal_engine *engine; /* owned */
	struct job jobs[SESSIONS];
	uint64_t now_ns, grants, page_outs, wakes;
};

static void on_record(void *ctx, const struct sal_record *r, struct sal_session *s,
		      struct sal_iteration *it)
{
	struct world *w = ctx;
	struct job *j;

	(void)it;
	w->wakes += r->what == SAL_WAKE_AT;
	if (!s)
		return;
	j = s->user;
	if (r->what == SAL_GRANT) {
		j->running = true;
		w->grants++;
	} else if (r->what == SAL_REFUSE && r->iteration) {
		j->submitted = false;
	} else if (r->what == SAL_PAGE_OUT) {
		j->copying = 1;
		w->page_outs++;
	} else if (r->what == SAL_PAGE_IN) {
		j->copying = 2;
	}
}

static void submit(struct world *w, struct rng *rng, struct job *j)
{
	j->it = (struct sal_iteration){
		.id = 1,
		.needs = { rng_below(rng, 300), rng_below(rng, 400) },
		.expected_ns = rng_below(rng, 200000),
	};
	j->submitted = true;
	sal_engine_submit(w->engine, w->now_ns, j->session, &j->it);
}

static void one_event(struct world *w, struct rng *rng)
{
	struct job *j = &w->jobs[rng_below(rng, SESSIONS)];

	w->now_ns += rng_below(rng, 3000000);
	if (j->running) {
		j->running = j->submitted = false;
		sal_engine_done(w->engine, w->now_ns, j->session, rng_below(rng, 1000000));
	} else if (j->copying) {
		bool out = j->copying == 1;

		j->copying = 0;
		if (out)
			sal_engine_paged_out(w->engine, w->now_ns, j->session);
		else
			sal_engine_paged_in(w->engine, w->now_ns, j->session);
	} else if (rng_chance(rng, 10)) {
		sal_engine_tick(w->engine, w->now_ns);
	} else if (!j->submitted && rng_chance(rng, 80)) {
		submit(w, rng, j);
	} else {
		sal_engine_need(w->engine, w->now_ns, j->session, rng_below(rng, 300));
	}
}

static void one_policy(const struct sal_policy *policy, struct world *w)
{
	struct sal_engine_config cfg = {
		.capacity_bytes = 2000,
		.policy = policy,
		.emit = on_record,
		.emit_ctx = w,
		.emit_events = true,
	};
	struct sal_job job = { .declared = { 100, 100 } };
	struct rng rng = { .state = 7 };

	memset(w, 0, sizeof(*w));
	sal_tuning_default(&cfg.tuning);
	cfg.tuning.page_bytes_per_s = 1000000;
	assert_int_equal(sal_engine_create(&cfg, &w->engine, NULL), SAL_OK);
	for (int i = 0; i < SESSIONS; i++)
		assert_int_equal(sal_engine_open(w->engine, 0, &job, &w->jobs[i],
						 &w->jobs[i].session, NULL),
				 SAL_OK);
	heap_calls = 0;
	for (int i = 0; i < 20000; i++)
		one_event(w, &rng);
	if (heap_calls)
		fail_msg("%s: the engine called the heap %d times", policy->name, (int)heap_calls);
	sal_engine_destroy(w->engine);
	assert_true(heap_calls > 0); /* the wraps work */
}

static void test_no_allocation_between_submit_and_grant(void **state)
{
	static struct world w;
	uint64_t grants = 0, page_outs = 0, wakes = 0;

	(void)state;
	for (size_t i = 0; sal_policies[i]; i++) {
		one_policy(sal_policies[i], &w);
		assert_true(w.grants > 20);
		grants += w.grants;
		page_outs += w.page_outs;
		wakes += w.wakes;
	}
	assert_true(grants > 2000 && page_outs > 500 && wakes > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_allocation_between_submit_and_grant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
