/* SPDX-License-Identifier: Apache-2.0 */
/* Which rings the worker reads, and when: bells, rests, limits, and clients that are far ahead. */
#include "unit/service/run_bed.h"

#include <unistd.h>

#include "service/run/attend.h"
#include "service/run/dispatch.h"
#include "service/server.h"

#define FILL "fake 1\noutput u8 64 = fill 7\n"

static struct run_bed bed;
static struct run_client a, b;

/* Rings once more. Called again until the session rests. */
static bool rests_after_a_ring(struct run_client *c)
{
	client_ring(c);
	return c->session->attention.is_resting;
}

static void who_rings_for_nothing_rests(void **state)
{
	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	client_open(&b, &bed, "b");
	client_program(&b, 1, FILL);
	BED_WAIT(&bed, rests_after_a_ring(&a));
	BED_ASSERT(&bed, !a.session->attention.is_attended && a.session->attention.rings > 16 &&
				 TAILQ_FIRST(&bed.server.worker.resting) == a.session);
	assert_int_equal(client_answer(&b, client_execute(&b, 1, 10, 1, NULL, 0)), 0);
	/* The rest ends after a while, and the session's records are read. */
	client_upload(&a, 1, 64, 3);
	client_expect(&a, 1, 64, 3);
	BED_WAIT(&bed, !a.session->attention.is_resting && a.session->attention.rings <= 1);
	/* The session's bell works again, too. */
	BED_WAIT(&bed, (client_delete(&b, 999), !a.session->attention.is_attended));
	client_expect(&a, 1, 64, 3);
	client_close(&a);
	client_close(&b);
	bed_close(&bed);
}

/* A client may ring too often: a few rings without a record have no effect. */
static void a_few_rings_do_no_harm(void **state)
{
	int i;

	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	for (i = 1; i <= 10; i++) {
		client_ring(&a);
		BED_WAIT(&bed, a.session->attention.rings >= 1);
		BED_ASSERT(&bed, !a.session->attention.is_resting);
	}
	client_close(&a);
	bed_close(&bed);
}

static void who_sends_too_fast_rests(void **state)
{
	struct run_config cfg = { 0 };
	int i;

	(void)state;
	cfg.limits.max[SVC_JOB][SVC_RECORDS_PER_S] = 200;
	bed_open(&bed, &cfg);
	client_open(&a, &bed, "a");
	client_open(&b, &bed, "b");
	for (i = 0; i < 500; i++)
		client_delete(&a, 999);
	/* It rests several times. This test may be slow, and see only the end of one of them. */
	BED_WAIT(&bed, a.session->attention.is_resting &&
			       a.session->attention.rest_until_ns > svc_now_ns() &&
			       !sal_ring_is_empty(&a.session->submit));
	client_upload(&b, 1, 64, 3); /* others do not rest */
	client_expect(&b, 1, 64, 3);
	BED_ASSERT(&bed, !b.session->attention.is_resting);
	BED_WAIT(&bed, sal_ring_is_empty(&a.session->submit));
	client_close(&a);
	client_close(&b);
	bed_close(&bed);
}

/*
 * If no record comes, the worker stops polling the ring, and the client rings for its next record.
 */
static void a_quiet_ring_is_left_alone(void **state)
{
	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	client_open(&b, &bed, "b");
	client_upload(&a, 1, 64, 3);
	client_expect(&a, 1, 64, 3);
	BED_ASSERT(&bed, a.session->attention.heard_ns > 0);
	/*
	 * The other client's records wake the worker, so that it can stop polling the first ring.
	 */
	BED_WAIT(&bed, (client_delete(&b, 999), !a.session->attention.is_attended));
	BED_WAIT(&bed, bed.server.worker.attended_count <= 1);
	client_expect(&a, 1, 64, 3);
	client_close(&a);
	client_close(&b);
	bed_close(&bed);
}

/* At the limit of waiting iterations the ring is not read. Reading resumes as iterations start. */
static void who_is_ahead_is_read_again(void **state)
{
	struct run_config cfg = { 0 };
	uint64_t last = 0, i;

	(void)state;
	cfg.limits.max[SVC_JOB][SVC_QUEUED_ITERATIONS] = 4;
	bed_open(&bed, &cfg);
	client_open(&a, &bed, "a");
	client_program(&a, 1, FILL "time 5000000\n");
	for (i = 0; i < 20; i++)
		last = client_execute(&a, 1, 10 + i, 1, NULL, 0);
	BED_WAIT(&bed, a.session->waiting_count == 4);
	BED_ASSERT(&bed, !sal_ring_is_empty(&a.session->submit));
	assert_int_equal(client_answer(&a, last), 0);
	client_expect(&a, 29, 64, 7);
	BED_WAIT(&bed, a.session->waiting_count == 0 && a.session->queued_bytes == 0);
	client_close(&a);
	bed_close(&bed);
}

/* The same for records that wait for an output. No iteration starts after them. */
static void who_waits_for_outputs_is_read_again(void **state)
{
	struct run_config cfg = { .plugin = "fake:slow:execute@1:100" };
	uint64_t last = 0;
	int i, round;

	(void)state;
	cfg.limits.max[SVC_JOB][SVC_QUEUED_ITERATIONS] = 4;
	bed_open(&bed, &cfg);
	client_open(&a, &bed, "a");
	client_program(&a, 1, FILL);
	for (round = 0; round < 3; round++) {
		uint64_t out = 10 + 100 * (uint64_t)round;

		(void)client_execute(&a, 1, out, 1, NULL, 0);
		BED_WAIT(&bed, bed_held_up(&bed) == 1); /* the output is pending */
		for (i = 0; i < 8; i++) {
			if (round == 0)
				last = client_await(&a, out);
			else if (round == 1)
				last = client_download(&a, out, 64);
			else
				client_copy(&a, out, out + 1 + (uint64_t)i);
		}
		if (round == 2)
			last = client_download(&a, out + 8, 64);
		assert_int_equal(client_answer(&a, last), 0);
	}
	client_close(&a);
	bed_close(&bed);
}

/* At the limit of queued bytes the ring is not read. Reading resumes when bytes are given back. */
static void who_has_too_many_bytes_queued_is_read_again(void **state)
{
	struct run_config cfg = { 0 };
	uint64_t last = 0, i;

	(void)state;
	cfg.limits.max[SVC_JOB][SVC_QUEUED_BYTES] = 3 * sizeof(struct svc_execution);
	bed_open(&bed, &cfg);
	client_open(&a, &bed, "a");
	client_program(&a, 1, FILL "time 5000000\n");
	for (i = 0; i < 20; i++)
		last = client_execute(&a, 1, 10 + i, 1, NULL, 0);
	assert_int_equal(client_answer(&a, last), 0);
	client_expect(&a, 29, 64, 7);
	BED_WAIT(&bed, a.session->queued_bytes == 0);
	client_close(&a);
	bed_close(&bed);
}

/* The client closed its bell: salusd stops polling the bell, and the session ends normally. */
static void a_bell_that_hangs_up_is_not_listened_to(void **state)
{
	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	(void)close(a.ring_bell);
	BED_WAIT(&bed, a.session->attention.is_deaf);
	BED_ASSERT(&bed, a.session->state == SVC_OPEN);
	client_open(&b, &bed, "b");
	client_upload(&b, 1, 64, 3);
	client_expect(&b, 1, 64, 3);
	a.ring_bell = -1;
	client_close(&a);
	client_close(&b);
	bed_close(&bed);
}

/* A killed session is in none of the worker's lists. */
static void the_dead_are_not_attended(void **state)
{
	(void)state;
	bed_open(&bed, &(struct run_config){ .plugin = "fake:endless:execute@1" });
	client_open(&a, &bed, "a");
	client_program(&a, 1, FILL);
	(void)client_execute(&a, 1, 10, 1, NULL, 0);
	BED_WAIT(&bed, bed_held_up(&bed) == 1);
	BED_WAIT(&bed, rests_after_a_ring(&a));
	client_kill(&a);
	BED_ASSERT(&bed, !a.session->attention.is_resting && !a.session->attention.is_attended &&
				 TAILQ_EMPTY(&bed.server.worker.resting));
	svc_lock(&bed.server);
	svc_attend(a.session);
	svc_unpark(a.session);
	assert_false(a.session->attention.is_attended);
	svc_unlock(&bed.server);
	bed_let_go(&bed);
	client_close(&a);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_rings_for_nothing_rests),
		cmocka_unit_test(a_few_rings_do_no_harm),
		cmocka_unit_test(who_sends_too_fast_rests),
		cmocka_unit_test(a_quiet_ring_is_left_alone),
		cmocka_unit_test(who_is_ahead_is_read_again),
		cmocka_unit_test(who_waits_for_outputs_is_read_again),
		cmocka_unit_test(who_has_too_many_bytes_queued_is_read_again),
		cmocka_unit_test(a_bell_that_hangs_up_is_not_listened_to),
		cmocka_unit_test(the_dead_are_not_attended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
