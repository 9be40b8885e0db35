/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's role: a thread whose brief call does not return loses the role to another thread. */
#include "unit/service/run_bed.h"

#include "service/run/watch.h"
#include "service/server.h"

#define FILL "fake 1\noutput u8 64 = fill 7\n"

static struct run_bed bed;
static struct run_client a, b;

static pthread_t holder(void)
{
	pthread_t thread;

	BED_WAIT(&bed, bed.server.worker.has_holder);
	svc_lock(&bed.server);
	thread = bed.server.worker.holder;
	svc_unlock(&bed.server);
	return thread;
}

/* A small upload is brief, so the worker runs it. The call does not return. */
static void a_call_that_stays_costs_the_role(void **state)
{
	pthread_t first;

	(void)state;
	bed_open(&bed, &(struct run_config){ .plugin = "fake:endless:upload@1", .lanes = 2 });
	client_open(&a, &bed, "a");
	client_open(&b, &bed, "b");
	client_program(&b, 1, FILL);
	first = holder();
	client_upload(&a, 1, 64, 1);
	BED_WAIT(&bed, bed_held_up(&bed) == 1);
	BED_WAIT(&bed,
		 bed.server.worker.has_holder && !pthread_equal(bed.server.worker.holder, first));
	BED_ASSERT(&bed, a.session->is_carried);
	assert_int_equal(client_answer(&b, client_execute(&b, 1, 10, 1, NULL, 0)), 0);
	client_expect(&b, 10, 64, 7);
	/* The next two workers lose the role in the same way. */
	first = holder();
	client_upload(&b, 1, 64, 1);
	BED_WAIT(&bed, bed_held_up(&bed) == 2);
	BED_WAIT(&bed,
		 bed.server.worker.has_holder && !pthread_equal(bed.server.worker.holder, first));
	bed_let_go(&bed);
	assert_int_equal(client_answer(&a, client_await(&a, 1)), SAL_CANCELLED);
	assert_int_equal(client_answer(&b, client_await(&b, 1)), SAL_CANCELLED);
	client_close(&a);
	client_close(&b);
	bed_close(&bed);
}

/*
 * The thread that lost the role goes on with its session: it runs the errands posted meanwhile, in
 * order.
 */
static void who_lost_the_role_carries_on(void **state)
{
	uint64_t last = 0;
	uint64_t i;

	(void)state;
	bed_open(&bed, &(struct run_config){ .plugin = "fake:slow:upload@1:30" });
	client_open(&a, &bed, "a");
	client_program(&a, 1, FILL);
	for (i = 1; i <= 8; i++) {
		client_upload(&a, i, 64, (unsigned char)i);
		last = client_await(&a, i);
	}
	assert_int_equal(client_answer(&a, last), 0);
	for (i = 1; i <= 8; i++)
		client_expect(&a, i, 64, (unsigned char)i);
	client_close(&a);
	bed_close(&bed);
}

/* The watchman watches calls only. */
static void a_worker_that_rests_keeps_its_role(void **state)
{
	pthread_t first;
	uint64_t i;

	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	client_program(&a, 1, FILL);
	assert_int_equal(client_answer(&a, client_execute(&a, 1, 10, 1, NULL, 0)), 0);
	BED_WAIT(&bed, atomic_load(&bed.server.worker.sleeps));
	BED_WAIT(&bed, atomic_load(&bed.server.watch.call_ns) == 0);
	first = holder();
	for (i = 0; i < 20; i++) { /* each after the worker has slept */
		BED_WAIT(&bed, atomic_load(&bed.server.worker.sleeps));
		client_delete(&a, 999);
		BED_WAIT(&bed, sal_ring_is_empty(&a.session->submit));
	}
	assert_true(pthread_equal(holder(), first));
	client_close(&a);
	bed_close(&bed);
}

/* The late end of an old call does not cost the next worker its role. */
static void a_late_end_does_no_harm(void **state)
{
	struct svc_watched outer, inner;

	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	BED_WAIT(&bed, atomic_load(&bed.server.worker.sleeps));
	atomic_store(&bed.server.watch.call_ns, 12345);
	/* of a call that the watchman found too long */
	svc_watch_end(&bed.server, &(struct svc_watched){ .since_ns = 54321 });
	assert_int_equal(atomic_load(&bed.server.watch.call_ns), 12345);
	svc_watch_end(&bed.server, &(struct svc_watched){ .since_ns = 12345 });
	assert_int_equal(atomic_load(&bed.server.watch.call_ns), 0);
	outer = svc_watch_begin(&bed.server);
	assert_int_equal(atomic_load(&bed.server.watch.call_ns), outer.since_ns);
	assert_true(atomic_load(&bed.server.watch.is_set));
	inner = svc_watch_begin(&bed.server);
	assert_int_equal(atomic_load(&bed.server.watch.call_ns), inner.since_ns);
	svc_watch_end(&bed.server, &inner); /* the outer call goes on, and is watched */
	assert_int_equal(atomic_load(&bed.server.watch.call_ns), outer.since_ns);
	svc_watch_end(&bed.server, &outer);
	BED_WAIT(&bed,
		 !atomic_load(&bed.server.watch.is_set)); /* the watchman ran, and found no call */
	BED_ASSERT(&bed, bed.server.worker.has_holder);
	client_close(&a);
	bed_close(&bed);
}

/* Six sessions work at once. Each gets its own results, however the calls behave. */
static void run_six(const char *plugin, uint32_t lanes)
{
	static struct run_client six[6];
	uint64_t last[6] = { 0 }, i, k;

	bed_open(&bed, &(struct run_config){ .plugin = plugin, .lanes = lanes });
	for (k = 0; k < 6; k++) {
		client_open(&six[k], &bed, "six");
		client_program(&six[k], 1, "fake 1\noutput u8 64 = add 0 1\n");
		client_upload(&six[k], 1, 64, (unsigned char)k);
		client_upload(&six[k], 2, 64, 1);
	}
	for (i = 0; i < 30; i++) {
		for (k = 0; k < 6; k++) {
			uint64_t args[] = { i == 0 ? 1 : 9 + i, 2 };

			last[k] = client_execute(&six[k], 1, 10 + i, 1, args, 2);
		}
	}
	for (k = 0; k < 6; k++) {
		assert_int_equal(client_answer(&six[k], last[k]), 0);
		client_expect(&six[k], 39, 64, (unsigned char)(k + 30));
	}
	bed_check(&bed);
	for (k = 0; k < 6; k++)
		client_close(&six[k]);
	bed_close(&bed);
}

static void six_sessions_get_their_own_numbers(void **state)
{
	(void)state;
	run_six("fake:strict", 1);
	run_six("fake:chained", 1);
	run_six("fake:chained,inline", 2);
	run_six("fake:slow@20:3", 2);
	run_six("fake:chained,slow@20:3", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_that_stays_costs_the_role),
		cmocka_unit_test(who_lost_the_role_carries_on),
		cmocka_unit_test(a_worker_that_rests_keeps_its_role),
		cmocka_unit_test(a_late_end_does_no_harm),
		cmocka_unit_test(six_sessions_get_their_own_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
