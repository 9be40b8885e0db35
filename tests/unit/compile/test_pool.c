/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool: real helper processes (salus-compile, path in SAL_COMPILE) with the fake device, and helpers that are
 * shell scripts and up to no good. A stopped helper (SIGSTOP) is one that compiles for long.
 */
#include "compile/pool.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "compile/frame.h"
#include "unit/compile/folder.h"
#include "wire/facts.h"

#define DEADLINE_NS (UINT64_C(60) * 1000000000)
#define TEXT(literal) ((struct sal_text){ literal, sizeof(literal) - 1 })
#define ADD "fake 1\nname add\noutput f32 4 = add 0 1\n"
#define COPY "fake 1\nname copy\noutput f32 4 = copy 0\n"
#define FILL "fake 1\nname fill\noutput u8 8 = fill 1\n"

struct bed {
	uv_loop_t loop;
	uv_timer_t ticker; /* so that waiting has a deadline */
	struct sal_compile_pool *pool;
	struct sal_compile_config cfg;
	char *folder;
	char cache[FOLDER_PATH];
	char script[FOLDER_PATH];
};

struct outcome {
	int calls, code;
	char message[512];
	struct sal_image *image;
	struct bed *close; /* close its pool when called */
};

/* --- the bed ------------------------------------------------------------------------------------ */

static void tick(uv_timer_t *timer)
{
	(void)timer;
}

static void open_pool(struct bed *bed)
{
	struct sal_err err = { 0 };

	if (sal_compile_pool_open(&bed->loop, &bed->cfg, &bed->pool, &err) < 0)
		fail_msg("%s", err.text);
}

static void close_pool(struct bed *bed)
{
	uint64_t end = uv_hrtime() + DEADLINE_NS;

	sal_compile_pool_close(bed->pool);
	bed->pool = NULL;
	while (uv_run(&bed->loop, UV_RUN_ONCE) != 0)
		assert_true(uv_hrtime() < end);
}

static int bed_make(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	if (!bed || !getenv("SAL_COMPILE") || folder_make((void **)&bed->folder) < 0)
		return -1;
	(void)uv_loop_init(&bed->loop);
	(void)uv_timer_init(&bed->loop, &bed->ticker);
	(void)uv_timer_start(&bed->ticker, tick, 20, 20);
	uv_unref((uv_handle_t *)&bed->ticker);
	folder_path(bed->folder, "cache", bed->cache);
	bed->cfg = (struct sal_compile_config){ .helper_path = getenv("SAL_COMPILE"),
						.plugin_path = "fake",
						.cache_dir = bed->cache,
						.cache_bytes = 1 << 26,
						.platform_version = TEXT("fake 1"),
						.helpers = 1 };
	*state = bed;
	return 0;
}

static int bed_remove(void **state)
{
	struct bed *bed = *state;
	int rc;

	if (bed->pool)
		close_pool(bed);
	uv_close((uv_handle_t *)&bed->ticker, NULL);
	(void)uv_run(&bed->loop, UV_RUN_DEFAULT);
	rc = uv_loop_close(&bed->loop);
	rc |= folder_remove((void **)&bed->folder);
	free(bed);
	return rc;
}

static struct sal_compile_stats stats_of(const struct bed *bed)
{
	struct sal_compile_stats stats;

	sal_compile_stats(bed->pool, &stats);
	return stats;
}

#define wait_for(bed, condition)                                            \
	do {                                                                \
		uint64_t end_ = uv_hrtime() + DEADLINE_NS;                  \
		while (!(condition)) {                                      \
			if (uv_hrtime() > end_)                             \
				fail_msg("waited in vain for " #condition); \
			(void)uv_run(&(bed)->loop, UV_RUN_ONCE);            \
		}                                                           \
	} while (0)

static void compiled(void *ctx, int code, const char *message, struct sal_image *image)
{
	struct outcome *o = ctx;

	o->calls++;
	o->code = code;
	o->image = image;
	(void)snprintf(o->message, sizeof(o->message), "%s", message);
	assert_int_equal(code == 0, image != NULL);
	if (o->close) {
		sal_compile_pool_close(o->close->pool);
		o->close->pool = NULL;
	}
}

static struct sal_compile_request *submit(struct bed *bed, struct sal_text program,
					  struct outcome *o)
{
	struct sal_compile_source source = { .format = TEXT("mlir"), .program = program };
	struct sal_compile_request *request;
	struct sal_err err = { 0 };

	if (sal_compile_submit(bed->pool, &source, compiled, o, &request, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(o->calls, 0);
	return request;
}

static void drop(struct outcome *o)
{
	sal_image_unref(o->image);
	memset(o, 0, sizeof(*o));
}

/* Compiles, and expects it to go well. */
static void expect_fine(struct bed *bed, struct sal_text program)
{
	struct outcome o = { 0 };

	(void)submit(bed, program, &o);
	wait_for(bed, o.calls);
	if (o.code != SAL_OK)
		fail_msg("%s: %s", sal_code_name(o.code), o.message);
	assert_int_equal(o.image->image.size, program.size);
	assert_memory_equal(o.image->image.at, program.at, program.size);
	drop(&o);
}

static void expect_error(struct bed *bed, struct sal_text program, int code, const char *text)
{
	struct outcome o = { 0 };

	(void)submit(bed, program, &o);
	wait_for(bed, o.calls);
	if (o.code != code || !strstr(o.message, text))
		fail_msg("%s: %s", sal_code_name(o.code), o.message);
	drop(&o);
}

static int helper_pid(const struct bed *bed)
{
	int pid = 0;

	assert_int_equal(sal_compile_helpers(bed->pool, &pid, 1), 1);
	assert_true(pid > 0);
	return pid;
}

/* --- programs ----------------------------------------------------------------------------------- */

static void compiles(void **state)
{
	struct bed *bed = *state;
	struct sal_program_facts *facts;
	struct outcome o = { 0 };
	struct sal_image *found;

	open_pool(bed);
	(void)submit(bed, TEXT(ADD), &o);
	wait_for(bed, o.calls);
	assert_int_equal(o.code, 0);
	assert_string_equal(o.message, "");
	assert_int_equal(sal_program_facts_unpack(o.image->facts.at, o.image->facts.size, &facts,
						  NULL),
			 SAL_OK);
	assert_int_equal(facts->output_count, 1);
	assert_int_equal(facts->outputs[0].bytes, 16);
	free(facts);
	found = sal_compile_find(bed->pool, o.image->key);
	assert_ptr_equal(found, o.image);
	sal_image_unref(found);
	assert_int_equal(stats_of(bed).compiled, 1);
	assert_int_equal(stats_of(bed).running, 0);
	expect_fine(bed, TEXT(COPY));
	assert_int_equal(stats_of(bed).compiled, 2);
	assert_int_equal(stats_of(bed).helper_deaths, 0);
	drop(&o);
}

static void compiles_once_for_all(void **state)
{
	struct bed *bed = *state;
	struct outcome o[10] = { 0 };

	open_pool(bed);
	for (int i = 0; i < 10; i++)
		(void)submit(bed, TEXT(ADD), &o[i]);
	for (int i = 0; i < 10; i++) {
		wait_for(bed, o[i].calls);
		assert_int_equal(o[i].code, 0);
		assert_ptr_equal(o[i].image, o[0].image);
	}
	assert_int_equal(stats_of(bed).compiled, 1);
	assert_int_equal(stats_of(bed).memory_hits, 0);
	expect_fine(bed, TEXT(ADD));
	assert_int_equal(stats_of(bed).compiled, 1);
	assert_int_equal(stats_of(bed).memory_hits, 1);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(o[i].calls, 1);
		drop(&o[i]);
	}
}

static char *make_large(size_t lines, size_t *out_size)
{
	static const char line[] = "# so that this becomes a large program, line by line by line\n";
	size_t size = sizeof(ADD) - 1 + lines * (sizeof(line) - 1);
	char *text = malloc(size + 1);
	char *to = text + sizeof(ADD) - 1;

	assert_non_null(text);
	memcpy(text, ADD, sizeof(ADD) - 1);
	for (size_t i = 0; i < lines; i++, to += sizeof(line) - 1)
		memcpy(to, line, sizeof(line));
	*out_size = size;
	return text;
}

/* Larger than any pipe, and hashed elsewhere. */
static void compiles_large_ones_once(void **state)
{
	struct bed *bed = *state;
	struct outcome o[3] = { 0 };
	size_t size;
	char *text = make_large(100000, &size);

	open_pool(bed);
	for (int i = 0; i < 3; i++)
		(void)submit(bed, (struct sal_text){ text, size }, &o[i]);
	for (int i = 0; i < 3; i++) {
		wait_for(bed, o[i].calls);
		assert_string_equal(o[i].message, "");
		assert_int_equal(o[i].image->image.size, size);
		drop(&o[i]);
	}
	assert_int_equal(stats_of(bed).compiled, 1);
	close_pool(bed);
	open_pool(bed);
	expect_fine(bed, (struct sal_text){ text, size });
	assert_int_equal(stats_of(bed).disk_hits, 1);
	free(text);
}

static void finds_on_disk_after_a_restart(void **state)
{
	struct bed *bed = *state;
	struct outcome o = { 0 };
	struct sal_image *found;

	open_pool(bed);
	(void)submit(bed, TEXT(ADD), &o);
	wait_for(bed, o.calls);
	close_pool(bed);
	open_pool(bed);
	expect_fine(bed, TEXT(ADD));
	assert_int_equal(stats_of(bed).disk_hits, 1);
	assert_int_equal(stats_of(bed).compiled, 0);
	close_pool(bed);
	open_pool(bed);
	found = sal_compile_find(bed->pool, o.image->key);
	assert_non_null(found);
	assert_memory_equal(found->image.at, o.image->image.at, o.image->image.size);
	sal_image_unref(found);
	close_pool(bed);
	bed->cfg.platform_version = TEXT("fake 2"); /* the plugin was replaced */
	open_pool(bed);
	expect_fine(bed, TEXT(ADD));
	assert_int_equal(stats_of(bed).compiled, 1);
	drop(&o);
}

static void tells_what_the_compiler_says(void **state)
{
	struct bed *bed = *state;

	open_pool(bed);
	expect_error(bed, TEXT("fake 1\nreject 12 not this one\n"), SAL_UNIMPLEMENTED,
		     "not this one");
	expect_error(bed, TEXT("fake 1\nreject 12 not this one\n"), SAL_UNIMPLEMENTED,
		     "not this one");
	expect_error(bed, TEXT("nonsense"), SAL_INVALID_ARGUMENT, "");
	assert_int_equal(stats_of(bed).failed, 3);
	assert_int_equal(stats_of(bed).helper_deaths, 0);
	expect_fine(bed, TEXT(ADD));
}

static int submit_with(struct bed *bed, const char *format, struct sal_text options,
		       struct outcome *o, struct sal_err *err)
{
	struct sal_compile_source source = { .format = { format, strlen(format) },
					     .program = TEXT(ADD),
					     .options = options };
	struct sal_compile_request *request;
	int rc = sal_compile_submit(bed->pool, &source, compiled, o, &request, err);

	if (rc < 0)
		assert_null(request);
	return rc;
}

static void cleans_options(void **state)
{
	/* executable_build_options { debug_options { xla_dump_to: "d" } }, and without it */
	static const char dumping[] = "\x1a\x06\x1a\x04\xea\x06\x01"
				      "d";
	static const char plain[] = "\x1a\x02\x1a\x00";
	/* the same with xla_gpu_ptx_file */
	static const char reading[] = "\x1a\x06\x1a\x04\xfa\x07\x01"
				      "d";
	struct bed *bed = *state;
	struct outcome o = { 0 };
	struct sal_err err = { 0 };

	open_pool(bed);
	assert_int_equal(submit_with(bed, "mlir", (struct sal_text){ dumping, 8 }, &o, &err), 0);
	wait_for(bed, o.calls);
	assert_int_equal(o.code, 0);
	assert_int_equal(stats_of(bed).options_dropped, 1);
	drop(&o);
	assert_int_equal(submit_with(bed, "mlir", (struct sal_text){ plain, 4 }, &o, &err), 0);
	wait_for(bed, o.calls);
	assert_int_equal(stats_of(bed).memory_hits, 1); /* the same program */
	drop(&o);
	assert_int_equal(submit_with(bed, "hlo", (struct sal_text){ plain, 4 }, &o, &err), 0);
	wait_for(bed, o.calls);
	assert_int_equal(stats_of(bed).compiled, 2); /* another */
	drop(&o);
	assert_int_equal(submit_with(bed, "mlir", (struct sal_text){ reading, 8 }, &o, &err),
			 -SAL_INVALID_ARGUMENT);
	assert_non_null(strstr(err.text, "xla_gpu_ptx_file"));
	assert_int_equal(submit_with(bed, "hlo_with_config", TEXT(""), &o, &err),
			 -SAL_INVALID_ARGUMENT);
	assert_non_null(strstr(err.text, "hlo_with_config"));
	assert_int_equal(o.calls, 0);
}

/* --- helpers ------------------------------------------------------------------------------------ */

static void survives_a_killed_helper(void **state)
{
	struct bed *bed = *state;
	struct outcome o[2] = { 0 };
	int pid;

	open_pool(bed);
	pid = helper_pid(bed);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	(void)submit(bed, TEXT(ADD), &o[0]);
	wait_for(bed, stats_of(bed).running == 1);
	(void)submit(bed, TEXT(COPY), &o[1]);
	assert_int_equal(kill(pid, SIGKILL), 0);
	wait_for(bed, o[0].calls && o[1].calls);
	assert_int_equal(o[0].code, SAL_ABORTED);
	assert_non_null(strstr(o[0].message, "signal 9"));
	assert_int_equal(o[1].code, SAL_OK);
	assert_int_equal(stats_of(bed).helper_deaths, 1);
	assert_int_not_equal(helper_pid(bed), pid);
	expect_fine(bed, TEXT(ADD));
	drop(&o[0]);
	drop(&o[1]);
}

static void replaces_an_idle_helper(void **state)
{
	struct bed *bed = *state;

	open_pool(bed);
	expect_fine(bed, TEXT(ADD));
	assert_int_equal(kill(helper_pid(bed), SIGKILL), 0);
	wait_for(bed, stats_of(bed).helper_deaths == 1);
	expect_fine(bed, TEXT(COPY));
	assert_int_equal(stats_of(bed).failed, 0);
}

static void survives_a_crash(void **state)
{
	struct bed *bed = *state;
	struct outcome o[3] = { 0 };

	bed->cfg.helpers = 2;
	open_pool(bed);
	(void)submit(bed, TEXT("fake 1\ncrash\n"), &o[0]);
	(void)submit(bed, TEXT(ADD), &o[1]);
	(void)submit(bed, TEXT(COPY), &o[2]);
	wait_for(bed, o[0].calls && o[1].calls && o[2].calls);
	assert_int_equal(o[0].code, SAL_INTERNAL);
	if (!strstr(o[0].message, "signal 6"))
		fail_msg("%s", o[0].message);
	assert_int_equal(o[1].code, SAL_OK);
	assert_int_equal(o[2].code, SAL_OK);
	expect_fine(bed, TEXT(FILL));
	for (int i = 0; i < 3; i++)
		drop(&o[i]);
}

static void starts_more_when_needed(void **state)
{
	struct bed *bed = *state;
	struct outcome slow = { 0 };
	int pids[3] = { 0 };

	bed->cfg.helpers = 2;
	open_pool(bed);
	pids[0] = helper_pid(bed);
	assert_int_equal(kill(pids[0], SIGSTOP), 0);
	(void)submit(bed, TEXT(ADD), &slow);
	expect_fine(bed, TEXT(COPY));
	expect_fine(bed, TEXT(FILL));
	assert_int_equal(slow.calls, 0);
	assert_int_equal(sal_compile_helpers(bed->pool, pids, 3), 2);
	assert_int_equal(stats_of(bed).running, 1);
	assert_int_equal(kill(pids[0], SIGCONT), 0);
	wait_for(bed, slow.calls);
	assert_int_equal(slow.code, SAL_OK);
	drop(&slow);
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
	open_pool(bed);
	for (int i = 0; i < 2; i++) {
		struct outcome o = { 0 };

		(void)submit(bed, TEXT(ADD), &o);
		wait_for(bed, o.calls);
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

/* --- cancel and close --------------------------------------------------------------------------- */

static void cancels(void **state)
{
	struct bed *bed = *state;
	struct outcome o[4] = { 0 };
	struct sal_compile_request *r[4];
	int pid;

	open_pool(bed);
	pid = helper_pid(bed);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	r[0] = submit(bed, TEXT(ADD), &o[0]);
	wait_for(bed, stats_of(bed).running == 1);
	r[1] = submit(bed, TEXT(COPY), &o[1]);
	r[2] = submit(bed, TEXT(FILL), &o[2]);
	r[3] = submit(bed, TEXT(FILL), &o[3]);
	sal_compile_cancel(r[0]);
	sal_compile_cancel(r[1]);
	sal_compile_cancel(r[2]);
	assert_int_equal(kill(pid, SIGCONT), 0);
	wait_for(bed, o[3].calls);
	assert_int_equal(o[3].code, SAL_OK);
	assert_int_equal(stats_of(bed).compiled, 2); /* what had begun, and what one still wants */
	expect_fine(bed, TEXT(ADD));
	assert_int_equal(stats_of(bed).memory_hits, 1);
	r[0] = submit(bed, TEXT(ADD), &o[0]); /* ready, but not told yet */
	sal_compile_cancel(r[0]);
	expect_fine(bed, TEXT(ADD));
	assert_int_equal(o[0].calls + o[1].calls + o[2].calls, 0);
	drop(&o[3]);
}

static void closes_at_any_time(void **state)
{
	struct bed *bed = *state;
	struct outcome o = { 0 };
	size_t size;
	char *large = make_large(30000, &size);

	for (int rounds = 0; rounds < 12; rounds++) {
		open_pool(bed);
		(void)submit(bed, TEXT(ADD), &o);
		(void)submit(bed, TEXT(COPY), &o);
		(void)submit(bed, (struct sal_text){ large, size }, &o);
		for (int i = 0; i < rounds && !o.calls; i++)
			(void)uv_run(&bed->loop, UV_RUN_NOWAIT);
		drop(&o);
		close_pool(bed);
		assert_int_equal(o.calls, 0);
	}
	free(large);
}

static void closes_while_it_tells(void **state)
{
	struct bed *bed = *state;
	struct outcome o[3] = { { .close = bed } };

	open_pool(bed);
	for (int i = 0; i < 3; i++)
		(void)submit(bed, TEXT(ADD), &o[i]);
	wait_for(bed, o[0].calls);
	close_pool(bed);
	assert_int_equal(o[1].calls + o[2].calls, 0);
	drop(&o[0]);
}

static void closes_with_a_stuck_helper(void **state)
{
	struct bed *bed = *state;
	struct outcome o = { 0 };
	size_t size;
	char *large = make_large(30000, &size);

	open_pool(bed);
	assert_int_equal(kill(helper_pid(bed), SIGSTOP), 0);
	(void)submit(bed, (struct sal_text){ large, size }, &o);
	wait_for(bed, stats_of(bed).running == 1);
	close_pool(bed);
	assert_int_equal(o.calls, 0);
	free(large);
}

/* --- helpers up to no good ---------------------------------------------------------------------- */

static void use_script(struct bed *bed, const char *text)
{
	FILE *file;

	folder_path(bed->folder, "helper", bed->script);
	(void)unlink(bed->script);
	file = fopen(bed->script, "w");
	assert_non_null(file);
	(void)fprintf(file, "#!/bin/sh\ncd %s\n%s\n", bed->folder, text);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(bed->script, 0700), 0);
	bed->cfg.helper_path = bed->script;
	bed->cfg.cache_dir = NULL;
}

static void expect_from_script(struct bed *bed, const char *script, int code, const char *text)
{
	use_script(bed, script);
	open_pool(bed);
	expect_error(bed, TEXT(ADD), code, text);
	wait_for(bed, stats_of(bed).helper_deaths >= 1);
	close_pool(bed);
}

static void distrusts_helpers(void **state)
{
	struct bed *bed = *state;

	expect_from_script(bed, "head -c 40 >/dev/null; printf '%0100d' 0; exec sleep 1000",
			   SAL_INTERNAL, "sent what is no answer");
	expect_from_script(bed, "head -c 40 >/dev/null; exit 3", SAL_INTERNAL, "status 3");
	expect_from_script(bed, "head -c 40 >/dev/null; kill -SEGV $$", SAL_INTERNAL, "signal 11");
	expect_from_script(bed, "head -c 40 >/dev/null; exec >&-; exec sleep 1000", SAL_ABORTED,
			   "signal 9");
}

/* A frame as the answer, in a file that the script shows. */
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
		{ { .id = 2, .code = 3, .sizes = { 2 } }, "no", "no answer" },
		{ { .id = 1, .code = 17, .sizes = { 2 } }, "no", "no answer" },
		{ { .id = 1, .code = 3, .sizes = { 1, 1 } }, "no", "no answer" },
		{ { .id = 1, .code = 3, .sizes = { 65537 } }, "no", "no answer" },
		{ { .id = 1, .sizes = { UINT64_MAX, 2 } }, "no", "no answer" },
		{ { .id = 1, .sizes = { 1, UINT64_C(1) << 30 } }, "no", "no answer" },
		{ { .id = 1, .sizes = { 2 } }, "no", "makes no sense" },
		{ { .id = 1 }, "", "makes no sense" },
	};
	struct bed *bed = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		expect_from_frame(bed, &bad[i].frame, bad[i].body, bad[i].text);
}

static void distrusts_who_speaks_first(void **state)
{
	struct bed *bed = *state;

	use_script(bed, "printf hello; exec sleep 1000");
	open_pool(bed);
	wait_for(bed, stats_of(bed).helper_deaths == 1);
	assert_int_equal(sal_compile_helpers(bed->pool, NULL, 0), 0); /* not over and over */
}

/* One that answers well and then says more: the answer counts, the rest is its end. */
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
	open_pool(bed);
	expect_error(bed, TEXT(ADD), SAL_OUT_OF_RANGE, "a lot");
	wait_for(bed, stats_of(bed).helper_deaths == 1);
}

/* --- disk --------------------------------------------------------------------------------------- */

static void works_without_a_disk(void **state)
{
	struct bed *bed = *state;
	char path[FOLDER_PATH];
	FILE *file;

	folder_path(bed->folder, "file", path);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fclose(file), 0);
	(void)snprintf(bed->cache, sizeof(bed->cache), "%.400s/cache", path);
	open_pool(bed);
	assert_false(stats_of(bed).has_disk);
	assert_non_null(strstr(stats_of(bed).disk_err.text, bed->cache));
	expect_fine(bed, TEXT(ADD));
	expect_fine(bed, TEXT(ADD));
	assert_int_equal(stats_of(bed).memory_hits, 1);
}

static void works_with_a_full_disk(void **state)
{
	struct bed *bed = *state;
	size_t size;
	char *large = make_large(20000, &size);

	assert_int_equal(mkdir(bed->cache, 0700), 0);
	if (mount("tmpfs", bed->cache, "tmpfs", 0, "size=128k,mode=700") != 0) {
		free(large);
		skip();
	}
	open_pool(bed);
	assert_true(stats_of(bed).has_disk);
	expect_fine(bed, (struct sal_text){ large, size });
	wait_for(bed, stats_of(bed).unsaved == 1);
	expect_fine(bed, TEXT(ADD));
	close_pool(bed);
	(void)mount("tmpfs", bed->cache, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL);
	open_pool(bed);
	expect_fine(bed, TEXT(ADD));
	assert_int_equal(stats_of(bed).disk_hits, 1);
	expect_fine(bed, TEXT(COPY));
	wait_for(bed, stats_of(bed).unsaved == 1);
	close_pool(bed);
	assert_int_equal(umount(bed->cache), 0);
	free(large);
}

/* --- seals -------------------------------------------------------------------------------------- */

static void expect_refused(struct bed *bed, const void *bytes, size_t size, int code)
{
	struct sal_err err = { 0 };
	struct sal_image *image;

	assert_int_equal(sal_image_open(bed->pool, bytes, size, &image, &err), -code);
	assert_null(image);
	assert_true(strlen(err.text) > 0);
}

static void opens_what_it_sealed(void **state)
{
	struct bed *bed = *state;
	struct outcome o = { 0 };
	struct sal_image *image;
	struct sal_err err = { 0 };
	void *bytes;
	size_t size;

	open_pool(bed);
	(void)submit(bed, TEXT(ADD), &o);
	wait_for(bed, o.calls);
	assert_int_equal(sal_image_seal(bed->pool, o.image, &bytes, &size, &err), SAL_OK);
	assert_int_equal(sal_image_open(bed->pool, bytes, size, &image, &err), SAL_OK);
	assert_ptr_equal(image, o.image);
	sal_image_unref(image);
	close_pool(bed);
	open_pool(bed);
	assert_int_equal(sal_image_open(bed->pool, bytes, size, &image, &err), SAL_OK);
	assert_memory_equal(image->key, o.image->key, sizeof(image->key));
	assert_int_equal(image->facts.size, o.image->facts.size);
	assert_memory_equal(image->image.at, o.image->image.at, o.image->image.size);
	sal_image_unref(image);
	expect_refused(bed, bytes, 0, SAL_DATA_LOSS);
	expect_refused(bed, bytes, size - 1, SAL_DATA_LOSS);
	((char *)bytes)[size / 2] ^= 1;
	expect_refused(bed, bytes, size, SAL_PERMISSION_DENIED);
	((char *)bytes)[size / 2] ^= 1;
	close_pool(bed);
	bed->cfg.platform_version = TEXT("fake 2");
	open_pool(bed);
	expect_refused(bed, bytes, size, SAL_FAILED_PRECONDITION);
	close_pool(bed);
	bed->cfg.platform_version = TEXT("fake 1");
	bed->cfg.cache_dir = NULL;
	open_pool(bed);
	expect_refused(bed, bytes, size, SAL_PERMISSION_DENIED);
	free(bytes);
	drop(&o);
}

/* --- salus-compile alone ------------------------------------------------------------------------ */

static int start_alone(int *out_in, int *out_out)
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
		(void)execl(getenv("SAL_COMPILE"), "salus-compile", "--plugin", "fake", NULL);
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
	int pid = start_alone(&in, &out);

	(void)state;
	sal_frame_encode(&frame, head);
	assert_int_equal(write(in, head, sizeof(head)), sizeof(head)); /* and no more */
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
	int pid = start_alone(&in, &out);
	char byte;

	(void)state;
	assert_int_equal(write(in, "this is no frame, but it has more than forty bytes", 50), 50);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(read(out, &byte, 1), 0);
	(void)close(in);
	(void)close(out);
}

#define with_bed(test) cmocka_unit_test_setup_teardown(test, bed_make, bed_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_bed(compiles),
		with_bed(compiles_once_for_all),
		with_bed(compiles_large_ones_once),
		with_bed(finds_on_disk_after_a_restart),
		with_bed(tells_what_the_compiler_says),
		with_bed(cleans_options),
		with_bed(survives_a_killed_helper),
		with_bed(replaces_an_idle_helper),
		with_bed(survives_a_crash),
		with_bed(starts_more_when_needed),
		with_bed(tells_why_it_does_not_start),
		with_bed(needs_sigpipe_ignored),
		with_bed(cancels),
		with_bed(closes_at_any_time),
		with_bed(closes_while_it_tells),
		with_bed(closes_with_a_stuck_helper),
		with_bed(distrusts_helpers),
		with_bed(distrusts_frames),
		with_bed(distrusts_who_speaks_first),
		with_bed(takes_the_answer_before_the_end),
		with_bed(works_without_a_disk),
		with_bed(works_with_a_full_disk),
		with_bed(opens_what_it_sealed),
		cmocka_unit_test(helper_ends_with_its_input),
		cmocka_unit_test(helper_ends_on_nonsense),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
