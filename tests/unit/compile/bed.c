/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/compile/bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void tick(uv_timer_t *timer)
{
	(void)timer;
}

void bed_open(struct bed *bed)
{
	struct sal_err err = { 0 };

	if (sal_compile_pool_open(&bed->loop, &bed->cfg, &bed->pool, &err) < 0)
		fail_msg("%s", err.text);
}

void bed_close(struct bed *bed)
{
	uint64_t end = uv_hrtime() + BED_DEADLINE_NS;

	sal_compile_pool_close(bed->pool);
	bed->pool = NULL;
	while (uv_run(&bed->loop, UV_RUN_ONCE) != 0)
		assert_true(uv_hrtime() < end);
}

int bed_make(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	assert_non_null(bed);
	assert_non_null(getenv("SAL_COMPILE"));
	assert_int_equal(folder_make((void **)&bed->folder), 0);
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

int bed_remove(void **state)
{
	struct bed *bed = *state;
	int rc;

	if (bed->pool)
		bed_close(bed);
	uv_close((uv_handle_t *)&bed->ticker, NULL);
	(void)uv_run(&bed->loop, UV_RUN_DEFAULT);
	rc = uv_loop_close(&bed->loop);
	rc |= folder_remove((void **)&bed->folder);
	free(bed);
	return rc;
}

struct sal_compile_stats bed_stats(const struct bed *bed)
{
	struct sal_compile_stats stats;

	sal_compile_stats(bed->pool, &stats);
	return stats;
}

void bed_compiled(void *ctx, int code, const char *message, struct sal_image *image)
{
	struct bed_outcome *o = ctx;

	o->calls++;
	if (o->counter)
		o->order = ++*o->counter;
	o->code = code;
	o->image = image;
	(void)snprintf(o->message, sizeof(o->message), "%s", message);
	assert_int_equal(code == 0, image != NULL);
	if (o->close) {
		sal_compile_pool_close(o->close->pool);
		o->close->pool = NULL;
	}
}

struct sal_text bed_copy(struct sal_text text)
{
	char *copy = malloc(text.size + 1);

	assert_non_null(copy);
	memcpy(copy, text.at, text.size);
	return (struct sal_text){ copy, text.size };
}

struct sal_compile_request *bed_submit(struct bed *bed, struct sal_text program,
				       struct bed_outcome *o)
{
	return bed_submit_as(bed, 1, program, o);
}

struct sal_compile_request *bed_submit_as(struct bed *bed, uint64_t owner, struct sal_text program,
					  struct bed_outcome *o)
{
	struct sal_compile_asker asker = { owner, bed_compiled, o };
	struct sal_compile_source source = { .format = TEXT("mlir"), .program = bed_copy(program) };
	struct sal_compile_request *request;
	struct sal_err err = { 0 };

	if (sal_compile_submit(bed->pool, &source, &asker, &request, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(o->calls, 0);
	return request;
}

void bed_drop(struct bed_outcome *o)
{
	sal_image_unref(o->image);
	memset(o, 0, sizeof(*o));
}

void bed_compile(struct bed *bed, struct sal_text program)
{
	bed_compile_as(bed, 1, program);
}

void bed_compile_as(struct bed *bed, uint64_t owner, struct sal_text program)
{
	struct bed_outcome o = { 0 };

	(void)bed_submit_as(bed, owner, program, &o);
	bed_wait(bed, o.calls);
	if (o.code != SAL_OK)
		fail_msg("%s: %s", sal_code_name(o.code), o.message);
	assert_int_equal(o.image->image.size, program.size);
	assert_memory_equal(o.image->image.at, program.at, program.size);
	bed_drop(&o);
}

void bed_expect(struct bed *bed, struct sal_text program, int code, const char *text)
{
	struct bed_outcome o = { 0 };

	(void)bed_submit(bed, program, &o);
	bed_wait(bed, o.calls);
	if (o.code != code || !strstr(o.message, text))
		fail_msg("%s: %s", sal_code_name(o.code), o.message);
	bed_drop(&o);
}

int bed_helper(const struct bed *bed)
{
	int pid = 0;

	assert_int_equal(sal_compile_helpers(bed->pool, &pid, 1), 1);
	assert_true(pid > 0);
	return pid;
}

char *bed_large_program(size_t lines, size_t *out_size)
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
