/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errands: their order, and which thread runs them. A vendor call that does not return blocks only
 * its own session.
 */
#include "unit/service/run_bed.h"

#include <stdlib.h>
#include <string.h>

#include "core/view.h"
#include "service/run/carrier.h"
#include "service/run/worker.h"
#include "service/server.h"

#define FILL "fake 1\noutput u8 64 = fill 7\n"

static struct run_bed bed;
static struct run_client a, b;

/* Errands of our own */

/* The order in which errands ran. */
struct diary {
	char text[256];
	size_t used;
	pthread_t last;
	_Atomic bool gate; /* errands with a gate wait for the gate */
};

struct entry {
	struct svc_errand errand;
	struct diary *diary;
	char name;
	bool waits, naps, is_settled_at_once;
	struct entry *next; /* posted at the end of this one; NULL: none */
};

static void note(struct entry *e, char phase)
{
	struct diary *d = e->diary;

	assert_in_range(d->used, 0, sizeof(d->text) - 3);
	d->text[d->used++] = e->name;
	d->text[d->used++] = phase;
}

static bool entry_begin(struct svc_errand *errand)
{
	struct entry *e = (struct entry *)errand;

	svc_assert_locked(&bed.server);
	note(e, '(');
	return !e->is_settled_at_once;
}

static void entry_call(struct svc_errand *errand)
{
	struct entry *e = (struct entry *)errand;

	svc_assert_unlocked(&bed.server);
	while (e->waits && !atomic_load(&e->diary->gate))
		bed_nap();
	if (e->naps)
		bed_nap();
	e->diary->last = pthread_self();
}

static void entry_settle(struct svc_errand *errand)
{
	struct entry *e = (struct entry *)errand;

	svc_assert_locked(&bed.server);
	note(e, ')');
	if (e->next)
		svc_errand_post(a.session, &e->next->errand);
}

static void init_entry(struct entry *e, struct diary *d, char name, bool is_brief)
{
	*e = (struct entry){ .errand = { .begin = entry_begin,
					 .call = entry_call,
					 .settle = entry_settle,
					 .is_brief = is_brief },
			     .diary = d,
			     .name = name };
}

static void post(struct run_client *c, struct entry *e)
{
	svc_lock(&bed.server);
	svc_errand_post(c->session, &e->errand);
	svc_unlock(&bed.server);
	svc_worker_wake(&bed.server);
}

static void errands_are_done_in_order(void **state)
{
	struct diary d = { .used = 0 };
	struct entry e[6];
	int i;

	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	for (i = 0; i < 6; i++) /* brief and long ones in turn */
		init_entry(&e[i], &d, (char)('0' + i), i % 2 == 0);
	e[0].waits = e[3].waits = true;
	e[4].is_settled_at_once = true;
	for (i = 0; i < 6; i++)
		post(&a, &e[i]);
	BED_WAIT(&bed, d.used == 2); /* the errand has begun; no other errand runs before its end */
	BED_ASSERT(&bed, a.session->is_carried && !a.session->is_posted);
	atomic_store(&d.gate, true);
	BED_WAIT(&bed, !a.session->is_carried && STAILQ_EMPTY(&a.session->errands));
	assert_string_equal(d.text, "0(0)1(1)2(2)3(3)4(5(5)");
	client_close(&a);
	bed_close(&bed);
}

/* The device is idle until an iteration starts. What can wait comes after it, and nothing else. */
static void a_start_goes_before_what_can_wait(void **state)
{
	struct diary d = { .used = 0 };
	struct entry e[4];
	int i;

	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	for (i = 0; i < 4; i++)
		init_entry(&e[i], &d, (char)('0' + i), true);
	e[0].errand.can_wait = true;
	e[1].errand.starts = true; /* goes before 0 */
	e[2].errand.starts = true; /* 1 is before it: they stay in order */
	e[3].errand.can_wait = true;
	svc_lock(&bed.server);
	for (i = 0; i < 4; i++)
		svc_errand_post(a.session, &e[i].errand);
	svc_unlock(&bed.server);
	svc_worker_wake(&bed.server);
	BED_WAIT(&bed, d.used == 16);
	assert_string_equal(d.text, "1(1)0(0)2(2)3(3)");
	client_close(&a);
	bed_close(&bed);
}

/* Starts that follow each other without a gap keep back what can wait, but not for ever. */
static void what_can_wait_gets_its_turn(void **state)
{
	struct diary d = { .used = 0 };
	struct entry e[9];
	int i;

	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	for (i = 0; i < 9; i++) {
		init_entry(&e[i], &d, (char)('0' + i), true);
		e[i].errand.starts = i > 0;
		e[i].next = i > 0 && i < 8 ? &e[i + 1] : NULL;
	}
	e[0].errand.can_wait = true;
	svc_lock(&bed.server);
	svc_errand_post(a.session, &e[0].errand);
	svc_errand_post(a.session, &e[1].errand);
	svc_unlock(&bed.server);
	svc_worker_wake(&bed.server);
	BED_WAIT(&bed, d.used == 9 * 3 + 9);
	assert_string_equal(d.text, "1(1)2(2)3(3)4(4)0(0)5(5)6(6)7(7)8(8)");
	client_close(&a);
	bed_close(&bed);
}

static void expect_in_order(bool can_wait, bool computes)
{
	struct diary d = { .used = 0 };
	struct entry e[2];

	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	init_entry(&e[0], &d, '0', true);
	init_entry(&e[1], &d, '1', true);
	e[0].errand.can_wait = can_wait;
	e[1].errand.starts = true;
	e[1].errand.computes = computes;
	svc_lock(&bed.server);
	svc_errand_post(a.session, &e[0].errand);
	svc_errand_post(a.session, &e[1].errand);
	svc_unlock(&bed.server);
	svc_worker_wake(&bed.server);
	BED_WAIT(&bed, d.used == 8);
	assert_string_equal(d.text, "0(0)1(1)");
	client_close(&a);
	bed_close(&bed);
}

/* A start in which the vendor computes would delay what can wait for as long as it computes. */
static void other_starts_stay_in_order(void **state)
{
	(void)state;
	expect_in_order(false, false);
	expect_in_order(true, true);
}

static void expect_turns(bool starts_are_slow)
{
	struct diary d = { .used = 0 };
	struct run_client c[5];
	struct entry e[5];
	int i;

	bed_open(&bed, &(struct run_config){ 0 });
	for (i = 0; i < 5; i++) {
		client_open(&c[i], &bed, "c");
		init_entry(&e[i], &d, (char)('0' + i), true);
		e[i].errand.starts = i > 1;
		e[i].naps = starts_are_slow && i > 1;
	}
	svc_lock(&bed.server);
	for (i = 0; i < 5; i++)
		svc_errand_post(c[i].session, &e[i].errand);
	svc_unlock(&bed.server);
	svc_worker_wake(&bed.server);
	BED_WAIT(&bed, d.used == 20);
	assert_string_equal(d.text, "2(2)0(0)3(3)1(1)4(4)");
	for (i = 0; i < 5; i++)
		client_close(&c[i]);
	bed_close(&bed);
}

/*
 * Of several sessions, every other turn goes to one that starts, so the others wait for twice as long
 * at most; also if each start takes the worker's time for one round.
 */
static void sessions_that_start_go_first(void **state)
{
	(void)state;
	expect_turns(false);
	expect_turns(true);
}

/* The worker does not run long errands. */
static void long_errands_go_to_a_carrier(void **state)
{
	struct diary d = { .used = 0 };
	struct entry e;
	pthread_t worker;

	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	init_entry(&e, &d, 'x', false);
	BED_WAIT(&bed, bed.server.worker.has_holder);
	worker = bed.server.worker.holder;
	post(&a, &e);
	BED_WAIT(&bed, d.used == 4);
	assert_false(pthread_equal(d.last, worker));
	BED_ASSERT(&bed, pthread_equal(bed.server.worker.holder, worker));
	client_close(&a);
	bed_close(&bed);
}

/* A session with many brief errands does not block other sessions, and all its errands are run. */
static void many_errands_are_done_in_turns(void **state)
{
	struct diary d = { .used = 0 };
	struct entry e[40], other;
	int i;

	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	client_open(&b, &bed, "b");
	for (i = 0; i < 40; i++)
		init_entry(&e[i], &d, 'x', true);
	init_entry(&other, &d, 'y', true);
	svc_lock(&bed.server);
	for (i = 0; i < 40; i++)
		svc_errand_post(a.session, &e[i].errand);
	svc_errand_post(b.session, &other.errand);
	svc_unlock(&bed.server);
	svc_worker_wake(&bed.server);
	BED_WAIT(&bed, d.used == (size_t)4 * 41);
	/* The other session had its turn after sixteen errands. */
	assert_ptr_equal(strchr(d.text, 'y'), d.text + (size_t)4 * 16);
	client_close(&a);
	client_close(&b);
	bed_close(&bed);
}

/* A call that does not return */

static void run_into_upload(struct run_client *c)
{
	client_upload(c, 1, 64, 1);
}

static void run_into_execute(struct run_client *c)
{
	client_program(c, 1, FILL);
	(void)client_execute(c, 1, 10, 1, NULL, 0);
}

static void upload_and_wait(struct run_client *c)
{
	client_upload(c, 1, 64, 1);
	BED_WAIT(&bed, c->session->live_bytes == 64);
}

static void run_into_free(struct run_client *c)
{
	upload_and_wait(c);
	client_delete(c, 1);
}

static void run_into_download(struct run_client *c)
{
	upload_and_wait(c);
	(void)client_download(c, 1, 64);
}

static void run_into_copy(struct run_client *c)
{
	upload_and_wait(c);
	client_copy(c, 1, 2);
}

static void run_into_await(struct run_client *c)
{
	upload_and_wait(c);
	(void)client_await(c, 1);
}

static void run_into_unload(struct run_client *c)
{
	struct sal_msg_unload m = { .header = { .size = sizeof(m), .type = SAL_MSG_UNLOAD },
				    .id = 1 };

	client_program(c, 1, FILL);
	assert_int_equal(client_answer(c, client_execute(c, 1, 10, 1, NULL, 0)), 0);
	client_send(c, &m, sizeof(m));
}

#define BEFORE 29
#define AFTER 20

static void work(struct run_client *c, uint64_t first, uint64_t count)
{
	uint64_t i;

	for (i = 0; i < count; i++)
		assert_int_equal(client_answer(c, client_execute(c, 1, first + i, 1, NULL, 0)), 0);
}

/* The sessions have lanes of their own: a blocked call of one does not delay the other. */
static void expect_no_wait(const char *plugin, void (*run_into)(struct run_client *c))
{
	bed_open(&bed, &(struct run_config){ .plugin = plugin, .lanes = 2 });
	client_open(&b, &bed, "b");
	client_program(&b, 1, FILL);
	work(&b, 100, BEFORE);
	client_open(&a, &bed, "a");
	run_into(&a);
	BED_WAIT(&bed, bed_held_up(&bed) == 1);
	BED_ASSERT(&bed, a.session->is_carried);
	work(&b, 200, AFTER);
	client_expect(&b, 200, 64, 7);
	BED_ASSERT(&bed, bed_held_up(&bed) == 1 && a.session->is_carried);
	bed_let_go(&bed);
	client_close(&a);
	client_close(&b);
	bed_close(&bed);
}

static void an_endless_call_holds_up_nobody_else(void **state)
{
	(void)state;
	expect_no_wait("fake:endless:upload@1", run_into_upload);
	expect_no_wait("fake:endless:execute@30", run_into_execute); /* the first after BEFORE */
	expect_no_wait("fake:endless:load@2", run_into_execute); /* b's program is loaded */
	expect_no_wait("fake:endless:free_buffer@1", run_into_free);
	expect_no_wait("fake:endless:copy@1", run_into_copy);
	expect_no_wait("fake:endless:when_ready@1", run_into_await);
	expect_no_wait("fake:endless:unload@1", run_into_unload);
	expect_no_wait("fake:slow:open_stream@2:2000",
		       run_into_execute); /* the session's lane is not open yet */
}

/* As above, but the other session must not download either. */
static void an_endless_download_holds_up_nobody_else(void **state)
{
	(void)state;
	bed_open(&bed, &(struct run_config){ .plugin = "fake:endless:download@1", .lanes = 2 });
	client_open(&a, &bed, "a");
	client_open(&b, &bed, "b");
	client_program(&b, 1, FILL);
	run_into_download(&a);
	BED_WAIT(&bed, bed_held_up(&bed) == 1);
	work(&b, 100, BEFORE);
	BED_ASSERT(&bed, bed_held_up(&bed) == 1 && a.session->is_carried);
	bed_let_go(&bed);
	client_close(&a);
	client_close(&b);
	bed_close(&bed);
}

#define LONG "fake 1\ntime 20000000\noutput u8 64 = fill 7\n"
#define LONG_RUNS 3 /* how often each session runs its program first: its times are known then */

/* Two sessions of one lane. Returns a's request; b's iteration is queued behind it. */
static uint64_t run_one_after_the_other(const char *plugin)
{
	uint64_t i, request;

	bed_open(&bed, &(struct run_config){ .plugin = plugin });
	client_open(&a, &bed, "a");
	client_open(&b, &bed, "b");
	client_program(&a, 1, LONG);
	client_program(&b, 1, LONG);
	for (i = 0; i < LONG_RUNS; i++) {
		work(&a, 100 + i, 1);
		work(&b, 100 + i, 1);
	}
	request = client_execute(&a, 1, 200, 1, NULL, 0);
	BED_WAIT(&bed, bed.server.running == 1);
	(void)client_execute(&b, 1, 200, 1, NULL, 0);
	return request;
}

/* A vendor's thread does the errand that starts an iteration first: the device waits for it. */
static void the_device_comes_first(void **state)
{
	struct diary d = { .used = 0 };
	struct entry frees, starts;

	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	client_open(&b, &bed, "b");
	client_program(&a, 1, FILL);
	client_program(&b, 1, FILL);
	work(&a, 100, 1); /* both sessions have a lane now: the same */
	work(&b, 100, 1);
	init_entry(&frees, &d, 'f', true);
	init_entry(&starts, &d, 's', true);
	starts.errand.starts = true;
	BED_WAIT(&bed, !a.session->is_posted && !a.session->is_carried && !b.session->is_posted &&
			       !b.session->is_carried);
	svc_lock(&bed.server);
	svc_errand_post(a.session, &frees.errand);
	svc_errand_post(b.session, &starts.errand);
	assert_true(svc_carry_lane(&bed.server, sal_session_lane(b.session->core)));
	svc_unlock(&bed.server);
	svc_worker_wake(&bed.server);
	BED_WAIT(&bed, d.used == 8);
	assert_memory_equal(d.text, "s(", 2);
	client_close(&a);
	client_close(&b);
	bed_close(&bed);
}

/* A vendor's thread starts the next iteration, and that call does not return. */
static void an_endless_start_keeps_no_answer(void **state)
{
	uint64_t request = run_one_after_the_other("fake:chained,endless:execute@8");

	(void)state;
	BED_WAIT(&bed, bed_held_up(&bed) == 1);
	assert_int_equal(client_answer(&a, request), 0);
	BED_ASSERT(&bed, bed_held_up(&bed) == 1);
	bed_let_go(&bed);
	client_close(&a);
	client_close(&b);
	bed_close(&bed);
}

struct pool {
	uint32_t threads, idle;
};

static struct pool look_at_pool(void)
{
	struct svc_carriers *c = &bed.server.carriers;
	struct pool p;

	(void)pthread_mutex_lock(&c->lock);
	p = (struct pool){ c->threads, c->idle };
	(void)pthread_mutex_unlock(&c->lock);
	return p;
}

#define CROWD 12

/*
 * Each blocked call has a thread, and one more thread waits for the next call. Afterwards only a
 * few threads remain.
 */
static void idle_carriers_end(void **state)
{
	struct diary d[CROWD] = { { .used = 0 } };
	struct entry e[CROWD];
	struct run_client *clients = calloc(CROWD, sizeof(*clients));
	int i;

	(void)state;
	assert_non_null(clients);
	bed_open(&bed, &(struct run_config){ 0 });
	for (i = 0; i < CROWD; i++) {
		client_open(&clients[i], &bed, "c");
		init_entry(&e[i], &d[i], 'x', false);
		e[i].waits = true;
		post(&clients[i], &e[i]);
	}
	for (i = 0; i < CROWD; i++)
		BED_WAIT(&bed, d[i].used == 2);
	BED_WAIT(&bed, look_at_pool().idle >= 1);
	assert_true(look_at_pool().threads >= CROWD + 2); /* including the worker */
	for (i = 0; i < CROWD; i++)
		atomic_store(&d[i].gate, true);
	BED_WAIT(&bed, look_at_pool().threads <= 6 && look_at_pool().idle <= 4);
	for (i = 0; i < CROWD; i++)
		client_close(&clients[i]);
	bed_close(&bed);
	free(clients);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errands_are_done_in_order),
		cmocka_unit_test(a_start_goes_before_what_can_wait),
		cmocka_unit_test(what_can_wait_gets_its_turn),
		cmocka_unit_test(other_starts_stay_in_order),
		cmocka_unit_test(sessions_that_start_go_first),
		cmocka_unit_test(long_errands_go_to_a_carrier),
		cmocka_unit_test(many_errands_are_done_in_turns),
		cmocka_unit_test(an_endless_call_holds_up_nobody_else),
		cmocka_unit_test(an_endless_download_holds_up_nobody_else),
		cmocka_unit_test(the_device_comes_first),
		cmocka_unit_test(an_endless_start_keeps_no_answer),
		cmocka_unit_test(idle_carriers_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
