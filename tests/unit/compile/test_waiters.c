/* SPDX-License-Identifier: Apache-2.0 */
/* Waiters of a program: when a waiter leaves, only tasks without other waiters are dropped. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "unit/compile/bed.h"

/* Without a disk to search, programs are queued at once. */
static void who_leaves_takes_nobody_along(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome o[4] = { 0 };
	struct sal_compile_request *r[4];
	int pid;

	bed->cfg.cache_dir = NULL;
	bed_open(bed);
	pid = bed_helper(bed);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	r[0] = bed_submit(bed, TEXT(ADD), &o[0]);
	bed_wait(bed, bed_stats(bed).running == 1);
	r[1] = bed_submit(bed, TEXT(COPY), &o[1]);
	r[2] = bed_submit(bed, TEXT(FILL), &o[2]);
	r[3] = bed_submit(bed, TEXT(FILL), &o[3]);
	assert_true(r[0] && r[3]);
	sal_compile_cancel(r[1]); /* its only waiter */
	sal_compile_cancel(r[2]);
	assert_int_equal(kill(pid, SIGCONT), 0);
	bed_wait(bed, o[0].calls && o[3].calls);
	assert_int_equal(o[0].code, SAL_OK);
	assert_int_equal(o[3].code, SAL_OK);
	assert_int_equal(o[1].calls + o[2].calls, 0);
	assert_int_equal(bed_stats(bed).compiled, 2);
	bed_drop(&o[0]);
	bed_drop(&o[3]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_bed(who_leaves_takes_nobody_along),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
