/* SPDX-License-Identifier: Apache-2.0 */
/* thread: a thread takes no signals and has a name; whoever starts it takes them as before. */
#include "base/sys/thread.h"

#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct seen {
	sem_t go, done;
	char name[16];
	int blocked;
};

static void *tell(void *arg)
{
	struct seen *s = arg;
	sigset_t mask;

	while (sem_wait(&s->go) != 0)
		continue;
	(void)pthread_getname_np(pthread_self(), s->name, sizeof(s->name));
	(void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
	s->blocked = sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGINT) == 1;
	(void)sem_post(&s->done);
	return NULL;
}

static void start(struct seen *s, pthread_t *out_thread, const char *name)
{
	*s = (struct seen){ .blocked = 0 };
	assert_int_equal(sem_init(&s->go, 0, 0), 0);
	assert_int_equal(sem_init(&s->done, 0, 0), 0);
	assert_int_equal(sal_thread_start(out_thread, name, tell, s), 0);
	assert_int_equal(sem_post(&s->go), 0); /* the name is set by now */
	while (sem_wait(&s->done) != 0)
		continue;
}

static void test_takes_no_signals_and_has_its_name(void **state)
{
	struct seen s;
	pthread_t thread;

	(void)state;
	start(&s, &thread, "sal-test");
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_string_equal(s.name, "sal-test");
	assert_true(s.blocked);
}

static void test_a_detached_one_is_the_same(void **state)
{
	static struct seen s; /* the thread may outlive this function by a moment */

	(void)state;
	start(&s, NULL, "sal-detached");
	assert_string_equal(s.name, "sal-detached");
	assert_true(s.blocked);
}

static void test_the_starter_takes_signals_as_before(void **state)
{
	struct seen s;
	sigset_t one, now;
	pthread_t thread;

	(void)state;
	(void)sigemptyset(&one);
	(void)sigaddset(&one, SIGUSR1);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &one, NULL), 0);
	start(&s, &thread, "sal-test");
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
	assert_int_equal(sigismember(&now, SIGUSR1), 1);
	assert_int_equal(sigismember(&now, SIGTERM), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_takes_no_signals_and_has_its_name),
		cmocka_unit_test(test_a_detached_one_is_the_same),
		cmocka_unit_test(test_the_starter_takes_signals_as_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
