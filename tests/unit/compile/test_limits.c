/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits of compiling: time, processor time and memory of a task; tasks without waiters; turns of
 * owners. A stopped helper stands for a long compilation.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/compile/bed.h"

#define SPIN "fake 1\nspin\n"
#define GORGE "fake 1\ngorge\n"
#define MEMORY_BYTES (UINT64_C(256) << 20)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static bool is_gone(int pid)
{
	return kill(pid, 0) != 0;
}

/* A different program for each number. */
static struct sal_text numbered(char room[64], int number)
{
	int size = snprintf(room, 64, "fake 1\nname p%d\noutput f32 4 = copy 0\n", number);

	return (struct sal_text){ room, (size_t)size };
}

/* Limits */

static void ends_slow_tasks(void **state)
{
	struct bed *bed = *state;
	int pid;

	bed->cfg.task_limit_ns = UINT64_C(200) * 1000000;
	bed_open(bed);
	pid = bed_helper(bed);
	bed_expect(bed, TEXT(SPIN), SAL_DEADLINE_EXCEEDED, "longer than 200ms");
	assert_true(is_gone(pid));
	bed_expect(bed, TEXT(SPIN), SAL_DEADLINE_EXCEEDED, "--compile-time");
	bed->cfg.task_limit_ns = 0;
	assert_int_equal(bed_stats(bed).over_limit, 2);
	bed_close(bed);
	bed_open(bed);
	bed_compile(bed, TEXT(ADD));
}

/* All tasks together exceed the limit, but no single task does. */
static void gives_each_task_its_processor_time(void **state)
{
	struct bed *bed = *state;

	bed->cfg.task_cpu_ns = 1;
	bed_open(bed);
	bed_compile(bed, TEXT("fake 1\nname a\nburn 500\noutput f32 4 = copy 0\n"));
	bed_compile(bed, TEXT("fake 1\nname b\nburn 500\noutput f32 4 = copy 0\n"));
	bed_compile(bed, TEXT("fake 1\nname c\nburn 500\noutput f32 4 = copy 0\n"));
	bed_compile(bed, TEXT("fake 1\nname e\nburn 500\noutput f32 4 = copy 0\n"));
	bed_compile(bed, TEXT("fake 1\nname d\nburn 500\noutput f32 4 = copy 0\n"));
	assert_int_equal(bed_stats(bed).helper_deaths, 0);
}

static void ends_tasks_over_the_cpu_limit(void **state)
{
	struct bed *bed = *state;

	bed->cfg.task_cpu_ns = 1;
	bed_open(bed);
	bed_compile(bed, TEXT(ADD));
	bed_expect(bed, TEXT(SPIN), SAL_DEADLINE_EXCEEDED, "processor time");
	bed_compile(bed, TEXT(COPY));
	assert_int_equal(bed_stats(bed).helper_deaths, 1);
	assert_int_equal(bed_stats(bed).over_limit, 1);
}

static void ends_tasks_over_the_memory_limit(void **state)
{
	struct bed *bed = *state;

#ifdef SANITIZED
	skip();
#endif
	bed->cfg.helper_memory_bytes = MEMORY_BYTES;
	bed_open(bed);
	bed_expect(bed, TEXT(GORGE), SAL_RESOURCE_EXHAUSTED, "256MiB");
	assert_int_equal(bed_stats(bed).helper_deaths, 1);
	bed_compile(bed, TEXT(ADD));
	/*
	 * A task that fails in a helper that had other tasks before is tried again in a new helper.
	 */
	bed_expect(bed, TEXT(GORGE), SAL_RESOURCE_EXHAUSTED, "--compile-memory");
	assert_int_equal(bed_stats(bed).helper_deaths, 3);
	assert_int_equal(bed_stats(bed).over_limit, 2);
	bed_expect(bed, TEXT("fake 1\ncrash\n"), SAL_INTERNAL, "signal 6");
	bed_expect(bed, TEXT("fake 1\ngulp\n"), SAL_RESOURCE_EXHAUSTED, "--compile-memory");
}

/*
 * The last line of a helper is part of the error. The helper prints more lines than the log takes,
 * and more than a pipe holds.
 */
static void reads_the_output_of_helpers(void **state)
{
	struct bed *bed = *state;

	bed_open(bed);
	bed_compile(bed, TEXT("fake 1\nshout 20000\noutput f32 4 = copy 0\n"));
	bed_expect(bed, TEXT("fake 1\nshout 20000\ncrash\n"), SAL_INTERNAL, "a crash on purpose");
}

static void blames_no_program_for_words_of_another(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome o = { 0 };
	int pid;

	bed_open(bed);
	bed_compile(bed, TEXT("fake 1\nshout 3\noutput f32 4 = copy 0\n"));
	pid = bed_helper(bed);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	(void)bed_submit(bed, TEXT(ADD), &o);
	bed_wait(bed, bed_stats(bed).running == 1);
	assert_int_equal(kill(pid, SIGSYS), 0);
	assert_int_equal(kill(pid, SIGCONT), 0);
	bed_wait(bed, o.calls);
	assert_int_equal(o.code, SAL_INTERNAL);
	assert_non_null(strstr(o.message, "(Bad system call);"));
	bed_drop(&o);
}

static void cleans_the_environment(void **state)
{
	struct bed *bed = *state;
	char path[FOLDER_PATH], line[FOLDER_PATH] = "";
	FILE *file;

	folder_path(bed->folder, "helper", bed->helper_path);
	file = fopen(bed->helper_path, "w");
	assert_non_null(file);
	(void)fprintf(file,
		      "#!/bin/sh\ncd %s\necho \"$XLA_FLAGS-$SAL_COMPILE-${PATH:+path}\" >env.new\n"
		      "mv env.new env\nexec sleep 1000\n",
		      bed->folder);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(bed->helper_path, 0700), 0);
	bed->cfg.helper_path = bed->helper_path;
	assert_int_equal(setenv("XLA_FLAGS", "--xla_dump_to=x", 1), 0);
	bed_open(bed);
	folder_path(bed->folder, "env", path);
	bed_wait(bed, access(path, R_OK) == 0);
	assert_int_equal(unsetenv("XLA_FLAGS"), 0);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(line, sizeof(line), file));
	assert_string_equal(line, "--path\n");
	assert_int_equal(fclose(file), 0);
}

/* Nobody waits */

static void ends_tasks_without_waiters(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome o[2] = { 0 };
	struct sal_compile_request *r[2];
	int pid;

	bed_open(bed);
	pid = bed_helper(bed);
	r[0] = bed_submit_as(bed, 1, TEXT(SPIN), &o[0]);
	r[1] = bed_submit_as(bed, 2, TEXT(SPIN), &o[1]);
	bed_wait(bed, bed_stats(bed).running == 1);
	sal_compile_cancel(r[0]);
	assert_int_equal(bed_helper(bed), pid); /* one request still waits */
	assert_int_equal(bed_stats(bed).running, 1);
	sal_compile_cancel(r[1]);
	bed_wait(bed, bed_stats(bed).abandoned == 1);
	assert_true(is_gone(pid));
	assert_int_not_equal(bed_helper(bed), pid); /* a warm helper replaces it */
	bed_compile_as(bed, 3, TEXT(ADD));
	assert_int_equal(bed_stats(bed).abandoned, 1);
	assert_int_equal(bed_stats(bed).running, 0);
	assert_int_equal(bed_stats(bed).failed, 0);
	assert_int_equal(o[0].calls + o[1].calls, 0);
}

/* No request joins a task that is ending: a request for the same program gets a new task. */
static void compiles_again_after_an_ended_task(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome o[2] = { 0 };
	struct sal_compile_request *r;
	int pid;

	bed_open(bed);
	pid = bed_helper(bed);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	r = bed_submit(bed, TEXT(ADD), &o[0]);
	bed_wait(bed, bed_stats(bed).running == 1);
	sal_compile_cancel(r);
	(void)bed_submit(bed, TEXT(ADD), &o[1]);
	bed_wait(bed, o[1].calls);
	assert_int_equal(o[1].code, SAL_OK);
	assert_int_equal(o[0].calls, 0);
	assert_true(is_gone(pid));
	bed_drop(&o[1]);
}

/* Turns */

static void submit_many(struct bed *bed, uint64_t owner, int count, struct bed_outcome *o)
{
	char room[64];

	for (int i = 0; i < count; i++)
		(void)bed_submit_as(bed, owner, numbered(room, i), &o[i]);
}

static int count_calls(const struct bed_outcome *o, int count)
{
	int calls = 0;

	for (int i = 0; i < count; i++)
		calls += o[i].calls;
	return calls;
}

static void drop_all(struct bed_outcome *o, int count)
{
	for (int i = 0; i < count; i++)
		bed_drop(&o[i]);
}

/* With one helper, at most two of one owner's many programs run before another owner's program. */
static void owners_take_turns(void **state)
{
	struct bed *bed = *state;
	int counter = 0;
	struct bed_outcome many[20] = { 0 }, one = { .counter = &counter };
	struct sal_compile_request *r;
	struct sal_compile_wait wait;
	char room[64];
	int pid;

	bed->cfg.cache_dir = NULL;
	bed_open(bed);
	pid = bed_helper(bed);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	for (int i = 0; i < 20; i++)
		many[i].counter = &counter;
	submit_many(bed, 1, 20, many);
	r = bed_submit_as(bed, 2, numbered(room, 100), &one);
	sal_compile_waiting(r, &wait);
	assert_int_equal(wait.stage, SAL_COMPILE_QUEUED);
	assert_int_equal(wait.ahead, 1); /* besides the running task */
	assert_int_equal(kill(pid, SIGCONT), 0);
	bed_wait(bed, one.calls && count_calls(many, 20) == 20);
	assert_in_range(one.order, 2, 3);
	drop_all(many, 20);
	bed_drop(&one);
}

/* One owner's slow programs never occupy all helpers. */
static void reserves_a_helper_for_others(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome slow[3] = { 0 };
	struct sal_compile_request *r[3];
	struct sal_compile_run run[3];
	struct sal_compile_wait wait;

	bed->cfg.helpers = 2;
	bed->cfg.cache_dir = NULL;
	bed_open(bed);
	r[0] = bed_submit_as(bed, 7, TEXT(SPIN), &slow[0]);
	r[1] = bed_submit_as(bed, 7, TEXT(SPIN "# 2\n"), &slow[1]);
	r[2] = bed_submit_as(bed, 7, TEXT(SPIN "# 3\n"), &slow[2]);
	assert_int_equal(bed_stats(bed).running, 1);
	assert_int_equal(sal_compile_runs(bed->pool, run, 3), 1);
	assert_int_equal(run[0].owner, 7);
	sal_compile_waiting(r[0], &wait);
	assert_int_equal(wait.stage, SAL_COMPILE_RUNNING);
	assert_true(wait.ran_ns >= run[0].ran_ns && wait.waited_ns >= wait.ran_ns);
	sal_compile_waiting(r[2], &wait);
	assert_int_equal(wait.stage, SAL_COMPILE_QUEUED);
	assert_int_equal(wait.ahead, 1);
	bed_compile_as(bed, 8, TEXT(ADD));
	bed_compile_as(bed, 8, TEXT(COPY));
	assert_int_equal(bed_stats(bed).running, 1);
	for (int i = 0; i < 3; i++)
		sal_compile_cancel(r[i]);
	bed_wait(bed, bed_stats(bed).running == 0);
	assert_int_equal(bed_stats(bed).abandoned, 1);
	bed_compile_as(bed, 7, TEXT(FILL)); /* the owner gets another turn */
}

/*
 * A request that joins a queued program does not wait for the other programs of that program's
 * owner.
 */
static void joins_without_waiting_for_the_rest(void **state)
{
	struct bed *bed = *state;
	int counter = 0;
	struct bed_outcome many[20] = { 0 }, one = { .counter = &counter };
	char room[64];
	int pid;

	bed->cfg.cache_dir = NULL;
	bed_open(bed);
	pid = bed_helper(bed);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	for (int i = 0; i < 20; i++)
		many[i].counter = &counter;
	submit_many(bed, 1, 20, many);
	(void)bed_submit_as(bed, 2, numbered(room, 19), &one);
	assert_int_equal(kill(pid, SIGCONT), 0);
	bed_wait(bed, one.calls && count_calls(many, 20) == 20);
	assert_in_range(one.order, 2, 4); /* both get the answer */
	assert_int_equal(bed_stats(bed).compiled, 20);
	drop_all(many, 20);
	bed_drop(&one);
}

/* An additional helper ends when it is not needed any more. */
static void lets_spare_helpers_go(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome slow = { 0 };
	int pid;

	bed->cfg.helpers = 2;
	bed->cfg.spare_ns = UINT64_C(50) * 1000000;
	bed_open(bed);
	pid = bed_helper(bed);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	(void)bed_submit_as(bed, 1, TEXT(ADD), &slow);
	bed_wait(bed, bed_stats(bed).running == 1);
	bed_compile_as(bed, 2, TEXT(COPY));
	assert_int_equal(sal_compile_helpers(bed->pool, NULL, 0), 2);
	assert_int_equal(kill(pid, SIGCONT), 0);
	bed_wait(bed, slow.calls);
	bed_wait(bed, sal_compile_helpers(bed->pool, NULL, 0) == 1);
	bed_compile_as(bed, 2, TEXT(FILL));
	assert_int_equal(bed_stats(bed).helper_deaths, 1);
	assert_int_equal(bed_stats(bed).failed, 0);
	bed_drop(&slow);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_bed(ends_slow_tasks),
		with_bed(gives_each_task_its_processor_time),
		with_bed(ends_tasks_over_the_cpu_limit),
		with_bed(ends_tasks_over_the_memory_limit),
		with_bed(reads_the_output_of_helpers),
		with_bed(blames_no_program_for_words_of_another),
		with_bed(cleans_the_environment),
		with_bed(ends_tasks_without_waiters),
		with_bed(compiles_again_after_an_ended_task),
		with_bed(owners_take_turns),
		with_bed(reserves_a_helper_for_others),
		with_bed(joins_without_waiting_for_the_rest),
		with_bed(lets_spare_helpers_go),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
