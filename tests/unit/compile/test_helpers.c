/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helpers: helpers that crash, are killed, or are malicious shell scripts; and salus-compile
 * itself.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compile/frame.h"
#include "unit/compile/bed.h"

/* Helpers */

static void survives_a_killed_helper(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome o[2] = { 0 };
	int pid;

	bed_open(bed);
	pid = bed_helper(bed);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	(void)bed_submit(bed, TEXT(ADD), &o[0]);
	bed_wait(bed, bed_stats(bed).running == 1);
	(void)bed_submit(bed, TEXT(COPY), &o[1]);
	assert_int_equal(kill(pid, SIGKILL), 0);
	bed_wait(bed, o[0].calls && o[1].calls);
	assert_int_equal(o[0].code, SAL_ABORTED);
	assert_non_null(strstr(o[0].message, "signal 9"));
	assert_int_equal(o[1].code, SAL_OK);
	assert_int_equal(bed_stats(bed).helper_deaths, 1);
	assert_int_not_equal(bed_helper(bed), pid);
	bed_compile(bed, TEXT(ADD));
	bed_drop(&o[0]);
	bed_drop(&o[1]);
}

static void replaces_an_idle_helper(void **state)
{
	struct bed *bed = *state;

	bed_open(bed);
	bed_compile(bed, TEXT(ADD));
	assert_int_equal(kill(bed_helper(bed), SIGKILL), 0);
	bed_wait(bed, bed_stats(bed).helper_deaths == 1);
	bed_compile(bed, TEXT(COPY));
	assert_int_equal(bed_stats(bed).failed, 0);
}

static void survives_a_crash(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome o[3] = { 0 };

	bed->cfg.helpers = 2;
	bed_open(bed);
	(void)bed_submit(bed, TEXT("fake 1\ncrash\n"), &o[0]);
	(void)bed_submit(bed, TEXT(ADD), &o[1]);
	(void)bed_submit(bed, TEXT(COPY), &o[2]);
	bed_wait(bed, o[0].calls && o[1].calls && o[2].calls);
	assert_int_equal(o[0].code, SAL_INTERNAL);
	if (!strstr(o[0].message, "signal 6"))
		fail_msg("%s", o[0].message);
	assert_int_equal(o[1].code, SAL_OK);
	assert_int_equal(o[2].code, SAL_OK);
	bed_compile(bed, TEXT(FILL));
	for (int i = 0; i < 3; i++)
		bed_drop(&o[i]);
}

static void starts_more_when_needed(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome slow = { 0 };
	int pids[3] = { 0 };

	bed->cfg.helpers = 2;
	bed_open(bed);
	pids[0] = bed_helper(bed);
	assert_int_equal(kill(pids[0], SIGSTOP), 0);
	(void)bed_submit(bed, TEXT(ADD), &slow);
	bed_wait(bed, bed_stats(bed).running == 1);
	bed_compile_as(bed, 2, TEXT(COPY));
	bed_compile_as(bed, 2, TEXT(FILL));
	assert_int_equal(slow.calls, 0);
	assert_int_equal(sal_compile_helpers(bed->pool, pids, 3), 2);
	assert_int_equal(bed_stats(bed).running, 1);
	assert_int_equal(kill(pids[0], SIGCONT), 0);
	bed_wait(bed, slow.calls);
	assert_int_equal(slow.code, SAL_OK);
	bed_drop(&slow);
}

static void tells_why_it_does_not_start(void **state)
{
	struct bed *bed = *state;
	struct sal_err err = { 0 };

	bed->cfg.helper_path = "/nonexistent/salus-compile";
	assert_int_equal(sal_compile_pool_open(&bed->loop, &bed->cfg, &bed->pool, &err),
			 -SAL_UNAVAILABLE);
	assert_non_null(strstr(err.text, "/nonexistent/salus-compile"));
	assert_null(bed->pool);
	bed->cfg.helper_path = getenv("SAL_COMPILE");
	bed->cfg.plugin_path = "/nonexistent/plugin.so";
	bed_open(bed);
	for (int i = 0; i < 2; i++) {
		struct bed_outcome o = { 0 };

		(void)bed_submit(bed, TEXT(ADD), &o);
		bed_wait(bed, o.calls);
		assert_int_not_equal(o.code, 0);
		if (!strstr(o.message, "plugin.so"))
			fail_msg("%s", o.message);
	}
}

static void needs_sigpipe_ignored(void **state)
{
	struct bed *bed = *state;
	struct sal_err err = { 0 };

	(void)signal(SIGPIPE, SIG_DFL);
	assert_int_equal(sal_compile_pool_open(&bed->loop, &bed->cfg, &bed->pool, &err),
			 -SAL_FAILED_PRECONDITION);
	(void)signal(SIGPIPE, SIG_IGN);
	assert_non_null(strstr(err.text, "SIGPIPE"));
}

/* Helpers up to no good */

static void use_script(struct bed *bed, const char *text)
{
	FILE *file;

	folder_path(bed->folder, "helper", bed->helper_path);
	(void)unlink(bed->helper_path);
	file = fopen(bed->helper_path, "w");
	assert_non_null(file);
	(void)fprintf(file, "#!/bin/sh\ncd %s\n%s\n", bed->folder, text);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(bed->helper_path, 0700), 0);
	bed->cfg.helper_path = bed->helper_path;
	bed->cfg.cache_dir = NULL;
}

static void expect_from_script(struct bed *bed, const char *script, int code, const char *text)
{
	use_script(bed, script);
	bed_open(bed);
	bed_expect(bed, TEXT(ADD), code, text);
	bed_wait(bed, bed_stats(bed).helper_deaths >= 1);
	bed_close(bed);
}

static void distrusts_helpers(void **state)
{
	struct bed *bed = *state;

	expect_from_script(bed, "head -c 40 >/dev/null; printf '%0100d' 0; exec sleep 1000",
			   SAL_INTERNAL, "sent a malformed answer");
	expect_from_script(bed, "head -c 40 >/dev/null; exit 3", SAL_INTERNAL, "status 3");
	expect_from_script(bed, "head -c 40 >/dev/null; kill -SEGV $$", SAL_INTERNAL, "signal 11");
	expect_from_script(bed,
			   "head -c 40 >/dev/null; { echo F0000 1 a.cc:5] Check failed: so it is; "
			   "echo '*** Check failure stack trace: ***'; "
			   "echo '    @     0x7f89f439f404  main()'; } >&2; kill -ABRT $$",
			   SAL_INTERNAL, "Check failed: so it is; no other");
	expect_from_script(bed, "head -c 40 >/dev/null; exec >&-; exec sleep 1000", SAL_ABORTED,
			   "signal 9");
}

/* The answer is a frame, in a file that the script prints. */
static void expect_from_frame(struct bed *bed, const struct sal_frame *frame, const char *body,
			      const char *text)
{
	uint8_t head[SAL_FRAME_HEAD_BYTES];
	char path[FOLDER_PATH];
	FILE *file;

	sal_frame_encode(frame, head);
	folder_path(bed->folder, "answer", path);
	file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(head, 1, sizeof(head), file), sizeof(head));
	assert_int_equal(fwrite(body, 1, strlen(body), file), strlen(body));
	assert_int_equal(fclose(file), 0);
	expect_from_script(bed, "head -c 40 >/dev/null; cat answer; exec sleep 1000", SAL_INTERNAL,
			   text);
}

static void distrusts_frames(void **state)
{
	static const struct {
		struct sal_frame frame;
		const char *body, *text;
	} bad[] = {
		{ { .id = 2, .code = 3, .sizes = { 2 } }, "no", "malformed answer" },
		{ { .id = 1, .code = 17, .sizes = { 2 } }, "no", "malformed answer" },
		{ { .id = 1, .code = 3, .sizes = { 1, 1 } }, "no", "malformed answer" },
		{ { .id = 1, .code = 3, .sizes = { 65537 } }, "no", "malformed answer" },
		{ { .id = 1, .sizes = { UINT64_MAX, 2 } }, "no", "malformed answer" },
		{ { .id = 1, .sizes = { 1, UINT64_C(1) << 30 } }, "no", "malformed answer" },
		{ { .id = 1, .sizes = { 2 } }, "no", "malformed description" },
		{ { .id = 1 }, "", "malformed description" },
	};
	struct bed *bed = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		expect_from_frame(bed, &bad[i].frame, bad[i].body, bad[i].text);
}

static void distrusts_who_speaks_first(void **state)
{
	struct bed *bed = *state;

	use_script(bed, "printf hello; exec sleep 1000");
	bed_open(bed);
	bed_wait(bed, bed_stats(bed).helper_deaths == 1);
	assert_int_equal(sal_compile_helpers(bed->pool, NULL, 0), 0); /* not restarted */
}

/* A helper sends a good answer and then more bytes: the answer counts, and the helper is killed. */
static void takes_the_answer_before_the_end(void **state)
{
	struct sal_frame frame = { .id = 1, .code = SAL_OUT_OF_RANGE, .sizes = { 5 } };
	uint8_t head[SAL_FRAME_HEAD_BYTES];
	struct bed *bed = *state;
	char path[FOLDER_PATH];
	FILE *file;

	sal_frame_encode(&frame, head);
	folder_path(bed->folder, "answer", path);
	file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(head, 1, sizeof(head), file), sizeof(head));
	assert_int_equal(fwrite("a lotof noise", 1, 13, file), 13);
	assert_int_equal(fclose(file), 0);
	use_script(bed, "head -c 40 >/dev/null; cat answer");
	bed_open(bed);
	bed_expect(bed, TEXT(ADD), SAL_OUT_OF_RANGE, "a lot");
	bed_wait(bed, bed_stats(bed).helper_deaths == 1);
}

/* Salus-compile alone */

static int start_alone(const char *path, int *out_in, int *out_out)
{
	int in[2];
	int out[2];
	int pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out), 0);
	pid = fork();
	if (pid == 0) {
		(void)dup2(in[0], 0);
		(void)dup2(out[0], 1);
		(void)execl(path, "salus-compile", "--plugin", "fake", NULL);
		_exit(127);
	}
	(void)close(in[0]);
	(void)close(out[0]);
	*out_in = in[1];
	*out_out = out[1];
	return pid;
}

static void helper_ends_with_its_input(void **state)
{
	struct sal_frame frame = { .id = 1, .sizes = { 4, 1000, 0 } };
	uint8_t head[SAL_FRAME_HEAD_BYTES];
	int status = -1;
	int in;
	int out;
	int pid = start_alone(((struct bed *)*state)->cfg.helper_path, &in, &out);

	sal_frame_encode(&frame, head);
	assert_int_equal(write(in, head, sizeof(head)), sizeof(head)); /* an incomplete question */
	assert_int_equal(shutdown(in, SHUT_WR), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	(void)close(in);
	(void)close(out);
}

static void helper_ends_on_nonsense(void **state)
{
	int status = -1;
	int in;
	int out;
	int pid = start_alone(((struct bed *)*state)->cfg.helper_path, &in, &out);
	char byte;

	assert_int_equal(write(in, "this is no frame, but it has more than forty bytes", 50), 50);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(read(out, &byte, 1), 0);
	(void)close(in);
	(void)close(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_bed(survives_a_killed_helper),
		with_bed(replaces_an_idle_helper),
		with_bed(survives_a_crash),
		with_bed(starts_more_when_needed),
		with_bed(tells_why_it_does_not_start),
		with_bed(needs_sigpipe_ignored),
		with_bed(distrusts_helpers),
		with_bed(distrusts_frames),
		with_bed(distrusts_who_speaks_first),
		with_bed(takes_the_answer_before_the_end),
		with_bed(helper_ends_with_its_input),
		with_bed(helper_ends_on_nonsense),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
