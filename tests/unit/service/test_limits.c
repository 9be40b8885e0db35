/* SPDX-License-Identifier: Apache-2.0 */
#include "service/limits.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "service/client/session.h"
#include "service/ledger.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define SECOND UINT64_C(1000000000)

enum {
	SESSIONS = 4
};

/* A ledger and sessions of two users: 0 and 1 of user 1000, 2 and 3 of user 1001. */
struct bed {
	struct svc_ledger ledger;
	struct svc_session sessions[SESSIONS];
	struct sal_err err;
};

static struct bed *bed_open(const struct svc_limits *limits)
{
	struct bed *b = calloc(1, sizeof(*b));
	uid_t i;

	assert_non_null(b);
	svc_ledger_init(&b->ledger, limits);
	for (i = 0; i < SESSIONS; i++)
		assert_int_equal(svc_account_open(&b->sessions[i].account, &b->ledger, 1000 + i / 2,
						  NULL),
				 SAL_OK);
	return b;
}

static void bed_close(struct bed *b)
{
	int i;

	for (i = 0; i < SESSIONS; i++)
		svc_account_close(&b->sessions[i].account);
	assert_true(LIST_EMPTY(&b->ledger.users));
	svc_ledger_fini(&b->ledger);
	free(b);
}

static struct svc_limits some_limits(void)
{
	struct svc_limits l = { 0 };

	l.max[SVC_JOB][SVC_BUFFERS] = 10;
	l.max[SVC_USER][SVC_BUFFERS] = 15;
	l.max[SVC_DAEMON][SVC_BUFFERS] = 20;
	l.max[SVC_JOB][SVC_ARENA_BYTES] = 2 * GIB;
	return l;
}

static int take(struct bed *b, int i, uint64_t amount)
{
	return svc_limit_take(&b->sessions[i], SVC_BUFFERS, amount, &b->err);
}

static void give(struct bed *b, int i, uint64_t amount)
{
	svc_limit_give(&b->sessions[i], SVC_BUFFERS, amount);
}

static uint64_t in_all(struct bed *b, enum svc_resource what)
{
	struct svc_usage usage;

	svc_ledger_usage(&b->ledger, what, 0, &usage);
	assert_int_equal(usage.all, b->ledger.used[what]);
	return usage.all;
}

static uint64_t of_job(struct bed *b, int i, enum svc_resource what, uint64_t now_ns)
{
	uint64_t used[SVC_RESOURCES];

	svc_account_usage(&b->sessions[i].account, now_ns, used);
	return used[what];
}

static void a_job_has_its_limit(void **state)
{
	struct svc_limits l = some_limits();
	struct bed *b = bed_open(&l);

	(void)state;
	assert_int_equal(take(b, 0, 10), SAL_OK);
	assert_int_equal(take(b, 0, 1), -SAL_RESOURCE_EXHAUSTED);
	assert_string_equal(b->err.text, "this job has 10 buffers, asked for 1 more, and may have "
					 "10 (salusd --limit job-buffers=N)");
	assert_int_equal(in_all(b, SVC_BUFFERS), 10);
	give(b, 0, 1);
	assert_int_equal(take(b, 0, 1), SAL_OK);
	give(b, 0, 10);
	assert_int_equal(in_all(b, SVC_BUFFERS), 0);
	bed_close(b);
}

static void a_user_has_a_limit_over_all_jobs(void **state)
{
	struct svc_limits l = some_limits();
	struct bed *b = bed_open(&l);

	(void)state;
	assert_int_equal(take(b, 0, 10), SAL_OK);
	assert_int_equal(take(b, 1, 6), -SAL_RESOURCE_EXHAUSTED);
	assert_string_equal(b->err.text, "user 1000 has 10 buffers, asked for 6 more, and may have "
					 "15 (salusd --limit user-buffers=N)");
	assert_int_equal(b->sessions[1].account.used[SVC_BUFFERS], 0);
	assert_int_equal(take(b, 1, 5), SAL_OK);
	assert_int_equal(take(b, 2, 5), SAL_OK); /* of another user */
	give(b, 0, 10);
	give(b, 1, 5);
	give(b, 2, 5);
	bed_close(b);
}

static void the_daemon_has_a_limit_over_all_users(void **state)
{
	struct svc_limits l = some_limits();
	struct bed *b = bed_open(&l);
	struct svc_usage usage;

	(void)state;
	assert_int_equal(take(b, 0, 9), SAL_OK);
	assert_int_equal(take(b, 2, 10), SAL_OK);
	assert_int_equal(take(b, 3, 2), -SAL_RESOURCE_EXHAUSTED);
	assert_string_equal(b->err.text,
			    "all jobs together have 19 buffers, asked for 2 more, and may have 20 "
			    "(salusd --limit daemon-buffers=N)");
	svc_ledger_usage(&b->ledger, SVC_BUFFERS, 0, &usage);
	assert_int_equal(usage.all, 19);
	assert_int_equal(usage.user, 10);
	assert_int_equal(usage.uid, 1001);
	assert_int_equal(of_job(b, 0, SVC_BUFFERS, 0), 9);
	give(b, 0, 9);
	give(b, 2, 10);
	bed_close(b);
}

static void bytes_are_written_for_people(void **state)
{
	struct svc_limits l = some_limits();
	struct bed *b = bed_open(&l);

	(void)state;
	assert_int_equal(svc_limit_take(&b->sessions[0], SVC_ARENA_BYTES, GIB, NULL), SAL_OK);
	assert_int_equal(svc_limit_take(&b->sessions[0], SVC_ARENA_BYTES, 2 * GIB, &b->err),
			 -SAL_RESOURCE_EXHAUSTED);
	assert_string_equal(b->err.text,
			    "this job has 1GiB of shared memory for transfers, asked for 2GiB "
			    "more, and may have 2GiB (salusd --limit job-arena=SIZE)");
	svc_limit_give(&b->sessions[0], SVC_ARENA_BYTES, GIB);
	bed_close(b);
}

static void sums_do_not_wrap(void **state)
{
	struct svc_limits l = some_limits();
	struct bed *b = bed_open(&l);

	(void)state;
	assert_int_equal(take(b, 0, 1), SAL_OK);
	assert_int_equal(take(b, 0, UINT64_MAX), -SAL_RESOURCE_EXHAUSTED);
	/* Paged bytes have no limit here. */
	assert_int_equal(svc_limit_take(&b->sessions[0], SVC_PAGED_BYTES, INT64_MAX, NULL), SAL_OK);
	assert_int_equal(svc_limit_take(&b->sessions[0], SVC_PAGED_BYTES, UINT64_MAX, NULL),
			 -SAL_RESOURCE_EXHAUSTED);
	assert_int_equal(svc_limit_take(&b->sessions[2], SVC_PAGED_BYTES, 1, NULL),
			 -SAL_RESOURCE_EXHAUSTED);
	svc_limit_give(&b->sessions[0], SVC_PAGED_BYTES, INT64_MAX);
	give(b, 0, 1);
	bed_close(b);
}

static void a_user_stays_until_the_last_account(void **state)
{
	struct svc_limits l = some_limits();
	struct bed *b = bed_open(&l);

	(void)state;
	assert_int_equal(take(b, 1, 3), SAL_OK);
	svc_account_close(&b->sessions[0].account);
	svc_account_close(&b->sessions[0].account); /* not open: no effect */
	assert_int_equal(in_all(b, SVC_BUFFERS), 3);
	assert_int_equal(of_job(b, 0, SVC_BUFFERS, 0), 0);
	give(b, 1, 3);
	bed_close(b);
}

/* Runs the mistake in a child process and hides the child's error message. */
static int signal_of(void (*mistake)(struct bed *b), struct bed *b)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		(void)close(STDERR_FILENO);
		(void)signal(SIGABRT, SIG_DFL);
		mistake(b);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void close_first(struct bed *b)
{
	svc_account_close(&b->sessions[0].account);
}

static void give_two(struct bed *b)
{
	give(b, 0, 2);
}

static void wrong_books_are_a_bug(void **state)
{
	struct svc_limits l = some_limits();
	struct bed *b = bed_open(&l);

	(void)state;
	assert_int_equal(signal_of(close_first, b), 0);
	assert_int_equal(take(b, 0, 1), SAL_OK);
	assert_int_equal(signal_of(close_first, b), SIGABRT);
	assert_int_equal(take(b, 1, 5), SAL_OK);
	assert_int_equal(signal_of(give_two, b), SIGABRT);
	give(b, 0, 1);
	give(b, 1, 5);
	bed_close(b);
}

enum {
	ROUNDS = 20000
};

static void *take_and_give(void *session)
{
	struct svc_session *s = session;
	int i;

	for (i = 0; i < ROUNDS; i++)
		if (svc_limit_take(s, SVC_BUFFERS, 7, NULL) >= 0)
			svc_limit_give(s, SVC_BUFFERS, 7);
	return NULL;
}

static void threads_keep_the_books_right(void **state)
{
	struct svc_limits l = some_limits();
	struct bed *b = bed_open(&l);
	pthread_t threads[SESSIONS];
	int i;

	(void)state;
	for (i = 0; i < SESSIONS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &b->sessions[i]),
				 0);
	for (i = 0; i < SESSIONS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(in_all(b, SVC_BUFFERS), 0);
	bed_close(b);
}

static uint64_t pace(struct bed *b, int i, uint64_t now_ns, uint64_t wanted, uint64_t *wait_ns)
{
	return svc_limit_pace(&b->sessions[i], now_ns, wanted, wait_ns);
}

static void records_are_paced(void **state)
{
	struct svc_limits l = { 0 };
	struct bed *b;
	uint64_t now = 7 * SECOND, wait_ns = 1, sum = 0;
	int i;

	(void)state;
	l.max[SVC_JOB][SVC_RECORDS_PER_S] = 1000;
	b = bed_open(&l);
	assert_int_equal(pace(b, 0, now, 100, &wait_ns), 100);
	assert_int_equal(wait_ns, 0);
	assert_int_equal(pace(b, 0, now, 500, &wait_ns),
			 150); /* a burst is a quarter of the rate of one second */
	assert_in_range(wait_ns, SECOND / 1000, SECOND / 500);
	assert_int_equal(pace(b, 0, now, 1, NULL), 0);
	assert_int_equal(pace(b, 0, now + wait_ns, 5, NULL), 1);
	assert_int_equal(pace(b, 2, now, 200, NULL), 200); /* session 2 has its own bucket */
	/* Many small requests get the same sum per second as a few large ones. */
	for (i = 1; i <= 100000; i++)
		sum += pace(b, 0, now + wait_ns + (uint64_t)i * (SECOND / 100000), 1000, NULL);
	assert_in_range(sum, 990, 1000);
	/* After a rest, one burst is available and no more. */
	assert_int_equal(pace(b, 0, now + 60 * SECOND, 5000, NULL), 250);
	bed_close(b);
}

static void users_are_paced_too(void **state)
{
	struct svc_limits l = { 0 };
	struct bed *b;
	uint64_t wait_ns;
	struct svc_usage usage;

	(void)state;
	l.max[SVC_USER][SVC_RECORDS_PER_S] = 4000;
	b = bed_open(&l);
	assert_int_equal(pace(b, 0, SECOND, 900, &wait_ns), 900);
	assert_int_equal(pace(b, 1, SECOND, 900, &wait_ns), 100);
	assert_int_not_equal(wait_ns, 0);
	assert_int_equal(pace(b, 2, SECOND, 900, NULL), 900);
	svc_ledger_usage(&b->ledger, SVC_RECORDS_PER_S, 2 * SECOND, &usage);
	assert_int_equal(usage.all, 1900);
	assert_int_equal(usage.user, 1000);
	assert_int_equal(of_job(b, 1, SVC_RECORDS_PER_S, 2 * SECOND), 100);
	svc_ledger_usage(&b->ledger, SVC_RECORDS_PER_S, 4 * SECOND, &usage);
	assert_int_equal(usage.all, 0);
	bed_close(b);
}

static void weights_are_bounded(void **state)
{
	struct svc_limits l;
	struct sal_err err = { 0 };

	(void)state;
	svc_limits_default(&l, 16 * GIB);
	assert_int_equal(svc_limit_check_weight(&l, 1000000, NULL), SAL_OK);
	assert_int_equal(svc_limit_check_weight(&l, UINT32_MAX, &err), -SAL_INVALID_ARGUMENT);
	assert_non_null(strstr(err.text, "a job may have 1000 (salusd --limit job-weight=N)"));
	assert_int_equal(svc_limits_set(&l, "job-weight", "2", NULL), SAL_OK);
	assert_int_equal(svc_limit_check_weight(&l, 2000, NULL), SAL_OK);
	assert_int_equal(svc_limit_check_weight(&l, 2001, NULL), -SAL_INVALID_ARGUMENT);
}

/* Every limit has a default, a name that can be looked up, and a sentence. */
static void the_table_is_whole(void **state)
{
	struct svc_limits l;
	char name[SVC_LIMIT_NAME];
	int scope, what, found = 0;

	(void)state;
	svc_limits_default(&l, 16 * GIB);
	for (what = 0; what < SVC_RESOURCES; what++) {
		assert_non_null(svc_limit_help((enum svc_resource)what));
		for (scope = 0; scope < SVC_SCOPES; scope++) {
			bool applies =
				svc_limit_applies((enum svc_scope)scope, (enum svc_resource)what);
			const char *seven =
				svc_limit_unit((enum svc_resource)what) == SVC_UNIT_BYTES ? "7B"
											  : "7";

			(void)svc_limit_name((enum svc_scope)scope, (enum svc_resource)what, name,
					     sizeof(name));
			assert_int_equal(svc_limits_set(&l, name, seven, NULL),
					 applies ? SAL_OK : -SAL_NOT_FOUND);
			if (applies)
				assert_int_equal(l.max[scope][what],
						 svc_limit_unit((enum svc_resource)what) ==
								 SVC_UNIT_MILLI
							 ? 7000
							 : 7);
			found += applies;
		}
	}
	assert_true(found >= 2 * SVC_RESOURCES);
	svc_limits_default(&l, 16 * GIB);
	assert_int_equal(l.max[SVC_DAEMON][SVC_ARENA_BYTES], 8 * GIB);
	assert_int_equal(l.max[SVC_JOB][SVC_ARENA_BYTES], 4 * GIB);
	assert_int_equal(l.max[SVC_JOB][SVC_BUFFERS], 100000);
}

static void limits_are_set_by_name(void **state)
{
	struct svc_limits l = { 0 };
	struct sal_err err = { 0 };

	(void)state;
	assert_int_equal(svc_limits_set_pair(&l, "job-buffers=200000", &err), SAL_OK);
	assert_int_equal(l.max[SVC_JOB][SVC_BUFFERS], 200000);
	assert_int_equal(svc_limits_set_pair(&l, "user-arena=512MiB", &err), SAL_OK);
	assert_int_equal(l.max[SVC_USER][SVC_ARENA_BYTES], 512 * MIB);
	assert_int_equal(svc_limits_set_pair(&l, "job-buffers=none", &err), SAL_OK);
	assert_int_equal(l.max[SVC_JOB][SVC_BUFFERS], 0);
	assert_int_equal(svc_limits_set_pair(&l, "buffers=2", &err), -SAL_NOT_FOUND);
	assert_int_equal(svc_limits_set_pair(&l, "job-sessions=2", &err), -SAL_NOT_FOUND);
	assert_int_equal(svc_limits_set_pair(&l, "job-buffers", &err), -SAL_INVALID_ARGUMENT);
	assert_int_equal(svc_limits_set_pair(&l, "job-buffers=", &err), -SAL_INVALID_ARGUMENT);
	assert_int_equal(svc_limits_set_pair(&l, "job-buffers=0", &err), -SAL_INVALID_ARGUMENT);
	assert_int_equal(svc_limits_set_pair(&l, "job-buffers=-1", &err), -SAL_INVALID_ARGUMENT);
	assert_int_equal(svc_limits_set_pair(&l, "job-buffers=2KiB", &err), -SAL_INVALID_ARGUMENT);
	assert_int_equal(svc_limits_set_pair(&l, "job-buffers=99999999999999999999", &err),
			 -SAL_INVALID_ARGUMENT);
	assert_int_equal(svc_limits_set_pair(&l, "user-arena=0", &err), -SAL_INVALID_ARGUMENT);
	assert_int_equal(l.max[SVC_USER][SVC_ARENA_BYTES], 512 * MIB); /* unchanged */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_has_its_limit),
		cmocka_unit_test(a_user_has_a_limit_over_all_jobs),
		cmocka_unit_test(the_daemon_has_a_limit_over_all_users),
		cmocka_unit_test(bytes_are_written_for_people),
		cmocka_unit_test(sums_do_not_wrap),
		cmocka_unit_test(a_user_stays_until_the_last_account),
		cmocka_unit_test(wrong_books_are_a_bug),
		cmocka_unit_test(threads_keep_the_books_right),
		cmocka_unit_test(records_are_paced),
		cmocka_unit_test(users_are_paced_too),
		cmocka_unit_test(weights_are_bounded),
		cmocka_unit_test(the_table_is_whole),
		cmocka_unit_test(limits_are_set_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
