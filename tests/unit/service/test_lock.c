/* SPDX-License-Identifier: Apache-2.0 */
/* The one lock: which uses abort, and that a waiting thread gets the lock. */
#include "unit/service/run_bed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "service/client/session.h"
#include "service/run/carrier.h"
#include "service/server.h"
#include "support/threads.h"

/* A server with a lock only. */
static struct svc_server *bare_server(void)
{
	struct svc_server *server = calloc(1, sizeof(*server));

	assert_non_null(server);
	server->ops = &sal_device_fake;
	svc_lock_init(&server->lock);
	return server;
}

static void free_bare(struct svc_server *server)
{
	svc_lock_fini(&server->lock);
	free(server);
}

static bool aborts(void (*act)(void *server))
{
	struct svc_server *server = bare_server();
	bool does = bed_aborts(act, server);

	free_bare(server);
	return does;
}

SAL_UNCHECKED static void call_vendor_locked(void *server)
{
	svc_lock(server);
	(void)svc_vendor(server);
}

static void call_vendor_unlocked(void *server)
{
	svc_lock(server);
	svc_unlock(server);
	(void)svc_vendor(server);
}

SAL_UNCHECKED static void lock_twice(void *server)
{
	svc_lock(server);
	svc_lock(server);
}

SAL_UNCHECKED static void unlock_unlocked(void *server)
{
	svc_unlock(server);
}

static void claim_lock(void *server)
{
	svc_assert_locked(server);
}

SAL_UNCHECKED static void post_unlocked(void *server)
{
	struct svc_session *s = calloc(1, sizeof(*s));
	struct svc_errand errand = { 0 };

	if (s) {
		s->server = server;
		svc_errand_post(s, &errand);
	}
}

static void the_vendor_is_not_called_under_the_lock(void **state)
{
	(void)state;
	assert_true(aborts(call_vendor_locked));
	assert_false(aborts(call_vendor_unlocked));
}

static void misuse_aborts(void **state)
{
	(void)state;
	assert_true(aborts(lock_twice));
	assert_true(aborts(unlock_unlocked));
	assert_true(aborts(claim_lock));
	assert_true(aborts(post_unlocked));
}

/* Which thread gets the lock */

struct contest {
	struct svc_server *server;
	_Atomic pid_t tid; /* of the waiting thread */
	bool has_had; /* under the lock */
};

static void *ask(void *arg)
{
	struct contest *c = arg;

	atomic_store(&c->tid, thread_id());
	svc_lock(c->server);
	c->has_had = true;
	svc_unlock(c->server);
	return NULL;
}

/*
 * A thread waits for the lock. When the owner releases the lock and takes it again at once, the
 * waiting thread has had the lock in between.
 */
SAL_UNCHECKED static void expect_turn(void (*let_go)(struct svc_server *server))
{
	struct contest c = { .server = bare_server() };
	bool has_had;
	pthread_t thread;

	svc_lock(c.server);
	assert_int_equal(pthread_create(&thread, NULL, ask, &c), 0);
	while (!thread_is_asleep(atomic_load(&c.tid)))
		bed_nap();
	let_go(c.server);
	has_had = c.has_had;
	svc_unlock(c.server);
	(void)pthread_join(thread, NULL);
	free_bare(c.server);
	assert_true(has_had);
}

SAL_UNCHECKED static void unlock_and_lock(struct svc_server *server)
{
	svc_unlock(server);
	svc_lock(server);
}

static void a_thread_that_asks_gets_it(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 50; i++) {
		expect_turn(svc_lock_breathe);
		expect_turn(unlock_and_lock);
	}
}

static void *try(void *arg)
{
	struct svc_server *server = arg;
	bool *got = calloc(1, sizeof(*got));

	assert_non_null(got);
	if (svc_trylock(server)) {
		*got = true;
		svc_unlock(server);
	}
	return got;
}

static bool another_thread_can_have_it(struct svc_server *server)
{
	pthread_t thread;
	void *got = NULL;
	bool answer;

	assert_int_equal(pthread_create(&thread, NULL, try, server), 0);
	(void)pthread_join(thread, &got);
	assert_non_null(got);
	answer = *(bool *)got;
	free(got);
	return answer;
}

static void trylock_never_waits(void **state)
{
	struct svc_server *server = bare_server();

	(void)state;
	svc_lock(server);
	assert_false(another_thread_can_have_it(server));
	svc_unlock(server);
	assert_true(another_thread_can_have_it(server));
	/* After a successful trylock, this thread is the known owner. */
	assert_true(svc_trylock(server));
	svc_assert_locked(server);
	assert_false(another_thread_can_have_it(server));
	svc_unlock(server);
	free_bare(server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_vendor_is_not_called_under_the_lock),
		cmocka_unit_test(misuse_aborts),
		cmocka_unit_test(a_thread_that_asks_gets_it),
		cmocka_unit_test(trylock_never_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
