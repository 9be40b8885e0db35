/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a session: at once if the session has no call under way, else when the last call
 * returns.
 */
#include "unit/service/run_bed.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine.h"
#include "service/client/intake.h"
#include "service/client/session.h"
#include "service/idmap.h"
#include "service/memory/buffer.h"
#include "service/run/closing.h"
#include "service/run/dispatch.h"
#include "service/server.h"
#include "support/threads.h"

#define FILL "fake 1\noutput u8 64 = fill 7\n"
#define ADD "fake 1\noutput u8 64 = add 0 1\n"

static struct run_bed bed;
static struct run_client a, b;

static bool is_listed(const struct run_client *c)
{
	const struct svc_session *s;

	TAILQ_FOREACH(s, &bed.server.sessions, link)
		if (s == c->session)
			return svc_idmap_find(&bed.server.by_id, s->id) == s;
	return false;
}

static void an_idle_session_ends_at_once(void **state)
{
	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	client_program(&a, 1, FILL);
	client_upload(&a, 1, 64, 1);
	client_upload(&a, 2, 1000000, 1);
	assert_int_equal(client_answer(&a, client_execute(&a, 1, 10, 1, NULL, 0)), 0);
	BED_ASSERT(&bed, is_listed(&a) && a.session->core->held_bytes > 0);
	client_kill(&a);
	client_kill(&a); /* a second kill does nothing */
	BED_WAIT(&bed, client_has_ended(&a));
	BED_ASSERT(&bed, !is_listed(&a) && a.session->live_bytes == 0);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_FREE_BUFFER), 3);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_UNLOAD), 1);
	client_close(&a);
	bed_close(&bed);
}

/*
 * The session is killed while the vendor runs its iteration. The session stays visible as closing,
 * and all its other memory is given back. The session ends when the vendor's call returns.
 */
static void an_endless_iteration_keeps_its_session_closing(void **state)
{
	uint64_t i;

	(void)state;
	bed_open(&bed, &(struct run_config){ .plugin = "fake:endless:execute@1" });
	client_open(&a, &bed, "a");
	client_program(&a, 1, FILL);
	client_upload(&a, 1, 1000000, 1);
	client_upload(&a, 2, 64, 1);
	(void)client_execute(&a, 1, 10, 1, NULL, 0);
	for (i = 0; i < 5; i++) /* these never run */
		(void)client_execute(&a, 1, 20 + i, 1, NULL, 0);
	BED_WAIT(&bed, bed_held_up(&bed) == 1 && bed.server.queued == 5);
	client_kill(&a);
	BED_ASSERT(&bed, a.session->state == SVC_CLOSING && is_listed(&a));
	BED_ASSERT(&bed, svc_session_running(a.session) != NULL && a.session->core->paused);
	/* The session's ring is not read any more, and the session is granted nothing. */
	client_upload(&a, 3, 64, 1);
	BED_ASSERT(&bed, !a.session->attention.is_attended && a.session->buffers.count == 8);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_EXECUTE), 1);
	assert_int_equal(bed_held_up(&bed), 1);
	bed_check(&bed);
	bed_let_go(&bed);
	BED_WAIT(&bed, client_has_ended(&a));
	BED_ASSERT(&bed, !is_listed(&a) && bed.server.queued == 0 && bed.server.running == 0);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_EXECUTE), 1);
	client_close(&a);
	bed_close(&bed);
}

/*
 * Descriptors of the kinds that a session has: sockets, shared memory. Files are not counted: a thread
 * that starts another opens a file of /proc for a moment, to name it.
 */
static uint32_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	char target[64];
	uint32_t n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		ssize_t length = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		target[length > 0 ? length : 0] = '\0';
		n += strncmp(target, "socket:", 7) == 0 || strncmp(target, "/memfd:", 7) == 0;
	}
	(void)closedir(dir);
	return n;
}

static void a_session_leaves_no_descriptors(void **state)
{
	uint32_t before;
	int i;

	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	before = count_fds();
	for (i = 0; i < 5; i++) {
		client_open(&a, &bed, "a");
		assert_true(count_fds() > before);
		client_close(&a);
	}
	BED_WAIT(&bed, count_fds() == before); /* a carrier soon destroys the sessions */
	bed_close(&bed);
}

/*
 * The session is killed after a grant and before the start: the iteration never starts, and its
 * promised outputs are revoked.
 */
static void a_granted_iteration_of_the_dead_does_not_start(void **state)
{
	(void)state;
	bed_open(&bed, &(struct run_config){ .plugin = "fake:slow:upload@1:100" });
	client_open(&a, &bed, "a");
	client_program(&a, 1, FILL);
	client_upload(&a, 1, 64, 1);
	(void)client_execute(&a, 1, 10, 1, NULL, 0);
	BED_WAIT(&bed, bed_held_up(&bed) == 1 && bed.server.running == 1);
	BED_ASSERT(&bed, atomic_load(&TAILQ_FIRST(&a.session->executions)->state) == SVC_GRANTED);
	client_kill(&a);
	BED_WAIT(&bed, client_has_ended(&a));
	assert_int_equal(bed_calls(&bed, FAKE_CALL_EXECUTE), 0);
	BED_ASSERT(&bed, a.session->promised_bytes == 0 && bed.server.running == 0);
	client_close(&a);
	bed_close(&bed);
}

/*
 * The iteration runs on the device and no call is blocked. The session's other memory is given back
 * before the iteration ends.
 */
static void other_memory_is_given_back_while_it_runs(void **state)
{
	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	client_program(&a, 1, FILL "time 700000000\n");
	client_upload(&a, 1, 4000000, 1);
	BED_WAIT(&bed, a.session->live_bytes == 4000000);
	(void)client_execute(&a, 1, 10, 1, NULL, 0);
	BED_WAIT(&bed, a.session->live_bytes == 4000064);
	client_kill(&a);
	BED_WAIT(&bed, a.session->live_bytes == 64);
	BED_ASSERT(&bed, a.session->state == SVC_CLOSING && bed.server.running == 1);
	BED_ASSERT(&bed, a.session->core->held_bytes < 1000000); /* the engine knows that */
	BED_WAIT(&bed, client_has_ended(&a));
	client_close(&a);
	bed_close(&bed);
}

/* Whatever a killed session has under way, the session ends and leaves nothing. */
static void kill_amid_work(const char *plugin, uint32_t records)
{
	static const uint64_t args[] = { 1, 2 };
	uint32_t i;

	bed_open(&bed, &(struct run_config){ .plugin = plugin });
	client_open(&a, &bed, "a");
	client_program(&a, 1, ADD);
	client_upload(&a, 1, 64, 1);
	client_upload(&a, 2, 64, 1);
	for (i = 0; i < records; i++) {
		uint64_t out = 100 + 2 * (uint64_t)i;

		(void)client_execute(&a, 1, out, 1, args, 2);
		(void)client_download(&a, out, 64);
		client_copy(&a, out, out + 1);
		(void)client_await(&a, out + 1);
		if (i % 3 == 0)
			client_delete(&a, out);
	}
	client_kill(&a);
	client_close(&a);
	bed_close(&bed);
}

static void a_session_can_end_at_any_moment(void **state)
{
	static const char *const plugins[] = { "fake", "fake:chained", "fake:inline",
					       "fake:slow@7:1", "fake:execute@3,upload@2,copy@2" };
	uint32_t i;

	(void)state;
	for (i = 0; i < 40; i++)
		kill_amid_work(plugins[i % 5], 1 + i);
}

/* More buffers than one errand frees. */
static void thousands_of_buffers_are_freed(void **state)
{
	uint64_t i;

	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	for (i = 1; i <= 3000; i++)
		client_upload(&a, i, 64, 1);
	BED_WAIT(&bed, a.session->live_bytes == UINT64_C(3000) * 64);
	BED_ASSERT(&bed, a.session->charged_bytes == UINT64_C(3000) * SVC_BUFFER_BYTES_MIN);
	client_close(&a);
	bed_close(&bed);
}

/* A waiting session gets the memory of an ended one. */
static void another_gets_the_memory(void **state)
{
	uint64_t wait;

	(void)state;
	bed_open(&bed, &(struct run_config){ .memory_bytes = 8 << 20, .policy = &sal_policy_fifo });
	client_open(&a, &bed, "a");
	client_open(&b, &bed, "b");
	client_program(&a, 1, FILL "time 400000000\n");
	client_upload(&a, 1, 6 << 20, 1);
	BED_WAIT(&bed, a.session->live_bytes == 6 << 20);
	(void)client_execute(&a, 1, 10, 1, NULL, 0);
	BED_WAIT(&bed, bed.server.running == 1); /* the session cannot be paged out now */
	client_upload(&b, 1, 6 << 20, 2);
	wait = client_await(&b, 1);
	BED_WAIT(&bed, b.session->parked);
	client_kill(&a);
	assert_int_equal(client_answer(&b, wait), 0);
	client_expect(&b, 1, 6 << 20, 2);
	bed_check(&bed);
	client_close(&a);
	client_close(&b);
	bed_close(&bed);
}

/* While a record is being taken */

#define MANY 60000u

static struct sal_msg_execute *large_execute(void)
{
	uint32_t size = sal_record_size(sizeof(struct sal_msg_execute), 8 * (size_t)MANY), i;
	struct sal_msg_execute *m = calloc(1, size);
	uint64_t *ids = (uint64_t *)(m + 1);

	assert_non_null(m);
	*m = (struct sal_msg_execute){ .header = { .size = size, .type = SAL_MSG_EXECUTE },
				       .request = 1,
				       .program = 1,
				       .first_output = 10,
				       .output_count = 1,
				       .arg_count = MANY };
	for (i = 0; i < MANY; i++)
		ids[i] = 1;
	return m;
}

/* As soon as this thread gets the lock, it kills the session. A carrier has run all errands. */
static void *killer(void *arg)
{
	struct svc_session *s = a.session;

	atomic_store((_Atomic pid_t *)arg, thread_id());
	svc_lock(&bed.server);
	assert_true(s->state == SVC_OPEN && !TAILQ_EMPTY(&s->all));
	svc_session_kill(s, "");
	assert_true(s->is_posted);
	s->is_posted = false;
	svc_session_try_end(s); /* aborts if it treats the session as idle */
	s->is_posted = true;
	assert_int_equal(s->state, SVC_CLOSING);
	svc_unlock(&bed.server);
	return NULL;
}

/*
 * While salusd takes a large record, other threads get the lock. The session does not end before
 * the record drops its references to buffers.
 */
static void a_session_is_killed_while_its_record_is_taken(void **state)
{
	struct sal_msg_execute *m = large_execute();
	_Atomic pid_t tid = 0;
	pthread_t thread;

	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&a, &bed, "a");
	client_program(&a, 1, FILL);
	client_upload(&a, 1, 64, 1);
	BED_WAIT(&bed, a.session->live_bytes == 64 && !a.session->is_carried);
	svc_lock(&bed.server);
	assert_int_equal(pthread_create(&thread, NULL, killer, &tid), 0);
	while (!thread_is_asleep(atomic_load(&tid))) /* until the thread waits for the lock */
		bed_nap();
	assert_int_equal(svc_intake(a.session, &m->header), SVC_TAKEN);
	assert_int_not_equal(a.session->state, SVC_OPEN);
	svc_unlock(&bed.server);
	(void)pthread_join(thread, NULL);
	free(m);
	client_close(&a);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_idle_session_ends_at_once),
		cmocka_unit_test(an_endless_iteration_keeps_its_session_closing),
		cmocka_unit_test(a_session_leaves_no_descriptors),
		cmocka_unit_test(a_granted_iteration_of_the_dead_does_not_start),
		cmocka_unit_test(other_memory_is_given_back_while_it_runs),
		cmocka_unit_test(a_session_can_end_at_any_moment),
		cmocka_unit_test(thousands_of_buffers_are_freed),
		cmocka_unit_test(another_gets_the_memory),
		cmocka_unit_test(a_session_is_killed_while_its_record_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
