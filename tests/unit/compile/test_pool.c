/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool: programs are compiled once, found again, cancelled, sealed. A stopped helper stands for a
 * long compilation.
 */
#include "compile/pool/pool.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "unit/compile/bed.h"
#include "wire/facts.h"

/* Programs */

static void compiles(void **state)
{
	struct bed *bed = *state;
	struct sal_program_facts *facts;
	struct bed_outcome o = { 0 };
	struct sal_image *found;

	bed_open(bed);
	(void)bed_submit(bed, TEXT(ADD), &o);
	bed_wait(bed, o.calls);
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
	assert_int_equal(bed_stats(bed).compiled, 1);
	assert_int_equal(bed_stats(bed).running, 0);
	bed_compile(bed, TEXT(COPY));
	assert_int_equal(bed_stats(bed).compiled, 2);
	assert_int_equal(bed_stats(bed).helper_deaths, 0);
	bed_drop(&o);
}

static void compiles_once_for_all(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome o[10] = { 0 };

	bed_open(bed);
	for (int i = 0; i < 10; i++)
		(void)bed_submit(bed, TEXT(ADD), &o[i]);
	for (int i = 0; i < 10; i++) {
		bed_wait(bed, o[i].calls);
		assert_int_equal(o[i].code, 0);
		assert_ptr_equal(o[i].image, o[0].image);
	}
	assert_int_equal(bed_stats(bed).compiled, 1);
	assert_int_equal(bed_stats(bed).memory_hits, 0);
	bed_compile(bed, TEXT(ADD));
	assert_int_equal(bed_stats(bed).compiled, 1);
	assert_int_equal(bed_stats(bed).memory_hits, 1);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(o[i].calls, 1);
		bed_drop(&o[i]);
	}
}

/* Larger than any pipe, and hashed on another thread. */
static void compiles_large_ones_once(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome o[3] = { 0 };
	size_t size;
	char *text = bed_large_program(100000, &size);

	bed_open(bed);
	for (int i = 0; i < 3; i++)
		(void)bed_submit(bed, (struct sal_text){ text, size }, &o[i]);
	for (int i = 0; i < 3; i++) {
		bed_wait(bed, o[i].calls);
		assert_string_equal(o[i].message, "");
		assert_int_equal(o[i].image->image.size, size);
		bed_drop(&o[i]);
	}
	assert_int_equal(bed_stats(bed).compiled, 1);
	bed_close(bed);
	bed_open(bed);
	bed_compile(bed, (struct sal_text){ text, size });
	assert_int_equal(bed_stats(bed).disk_hits, 1);
	free(text);
}

static void finds_on_disk_after_a_restart(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome o = { 0 };
	struct sal_image *found;

	bed_open(bed);
	(void)bed_submit(bed, TEXT(ADD), &o);
	bed_wait(bed, o.calls);
	bed_close(bed);
	bed_open(bed);
	bed_compile(bed, TEXT(ADD));
	assert_int_equal(bed_stats(bed).disk_hits, 1);
	assert_int_equal(bed_stats(bed).compiled, 0);
	bed_close(bed);
	bed_open(bed);
	found = sal_compile_find(bed->pool, o.image->key);
	assert_non_null(found);
	assert_memory_equal(found->image.at, o.image->image.at, o.image->image.size);
	sal_image_unref(found);
	bed_close(bed);
	bed->cfg.platform_version = TEXT("fake 2"); /* the plugin was replaced */
	bed_open(bed);
	bed_compile(bed, TEXT(ADD));
	assert_int_equal(bed_stats(bed).compiled, 1);
	bed_drop(&o);
}

/* Two configurations share a cache, and neither finds the other's programs. */
static void expect_strangers(struct bed *bed, const struct sal_compile_config *second)
{
	struct sal_compile_config first = bed->cfg;
	struct bed_outcome o = { 0 };

	bed_open(bed);
	(void)bed_submit(bed, TEXT(ADD), &o);
	bed_wait(bed, o.calls);
	bed_close(bed);
	bed->cfg = *second;
	bed_open(bed);
	assert_null(sal_compile_find(bed->pool, o.image->key));
	bed_compile(bed, TEXT(ADD));
	assert_int_equal(bed_stats(bed).disk_hits, 0);
	assert_int_equal(bed_stats(bed).compiled, 1);
	bed_close(bed);
	bed->cfg = first;
	bed_open(bed); /* the first configuration finds its programs again */
	bed_compile(bed, TEXT(ADD));
	assert_int_equal(bed_stats(bed).disk_hits, 1);
	assert_int_equal(bed_stats(bed).compiled, 0);
	bed_close(bed);
	bed_drop(&o);
}

static void tells_plugins_apart(void **state)
{
	struct bed *bed = *state;
	struct sal_compile_config second = bed->cfg;

	second.device_kind = TEXT("another");
	expect_strangers(bed, &second);
	second = bed->cfg;
	second.api_minor++;
	expect_strangers(bed, &second);
	second = bed->cfg;
	second.api_major++;
	expect_strangers(bed, &second);
	second = bed->cfg;
	second.platform_version = TEXT("fake 2");
	expect_strangers(bed, &second);
}

/* Programs that are queued for the disk when the pool closes are written. */
static void stores_all_it_compiled(void **state)
{
	struct bed *bed = *state;

	bed_open(bed);
	bed_compile(bed, TEXT(ADD));
	bed_compile(bed, TEXT(COPY));
	bed_compile(bed, TEXT(FILL));
	bed_close(bed);
	bed_open(bed);
	bed_compile(bed, TEXT(ADD));
	bed_compile(bed, TEXT(COPY));
	bed_compile(bed, TEXT(FILL));
	assert_int_equal(bed_stats(bed).disk_hits, 3);
}

static void reports_errors_of_the_compiler(void **state)
{
	struct bed *bed = *state;

	bed_open(bed);
	bed_expect(bed, TEXT("fake 1\nreject 12 not this one\n"), SAL_UNIMPLEMENTED,
		   "not this one");
	bed_expect(bed, TEXT("fake 1\nreject 12 not this one\n"), SAL_UNIMPLEMENTED,
		   "not this one");
	bed_expect(bed, TEXT("nonsense"), SAL_INVALID_ARGUMENT, "");
	assert_int_equal(bed_stats(bed).failed, 3);
	assert_int_equal(bed_stats(bed).helper_deaths, 0);
	bed_compile(bed, TEXT(ADD));
}

static int submit_with(struct bed *bed, const char *format, struct sal_text options,
		       struct bed_outcome *o, struct sal_err *err)
{
	struct sal_compile_source source = { .format = { format, strlen(format) },
					     .program = bed_copy(TEXT(ADD)),
					     .options = options };
	struct sal_compile_asker asker = { 1, bed_compiled, o };
	struct sal_compile_request *request;
	int rc = sal_compile_submit(bed->pool, &source, &asker, &request, err);

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
	struct bed_outcome o = { 0 };
	struct sal_err err = { 0 };

	bed_open(bed);
	assert_int_equal(submit_with(bed, "mlir", (struct sal_text){ dumping, 8 }, &o, &err), 0);
	bed_wait(bed, o.calls);
	assert_int_equal(o.code, 0);
	assert_int_equal(bed_stats(bed).options_dropped, 1);
	bed_drop(&o);
	assert_int_equal(submit_with(bed, "mlir", (struct sal_text){ plain, 4 }, &o, &err), 0);
	bed_wait(bed, o.calls);
	assert_int_equal(bed_stats(bed).memory_hits, 1); /* the same program */
	bed_drop(&o);
	assert_int_equal(submit_with(bed, "hlo", (struct sal_text){ plain, 4 }, &o, &err), 0);
	bed_wait(bed, o.calls);
	assert_int_equal(bed_stats(bed).compiled, 2); /* another program */
	bed_drop(&o);
	assert_int_equal(submit_with(bed, "mlir", (struct sal_text){ reading, 8 }, &o, &err),
			 -SAL_INVALID_ARGUMENT);
	assert_non_null(strstr(err.text, "xla_gpu_ptx_file"));
	assert_int_equal(submit_with(bed, "hlo_with_config", TEXT(""), &o, &err),
			 -SAL_INVALID_ARGUMENT);
	assert_non_null(strstr(err.text, "hlo_with_config"));
	assert_int_equal(o.calls, 0);
}

/* Cancel and close */

/* A task that has not begun is dropped with its last waiter. A task with a waiter is compiled. */
static void cancels(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome o[4] = { 0 };
	struct sal_compile_request *r[4];
	int pid;

	bed_open(bed);
	pid = bed_helper(bed);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	r[0] = bed_submit(bed, TEXT(ADD), &o[0]);
	bed_wait(bed, bed_stats(bed).running == 1);
	r[1] = bed_submit(bed, TEXT(COPY), &o[1]);
	r[2] = bed_submit(bed, TEXT(FILL), &o[2]);
	r[3] = bed_submit(bed, TEXT(FILL), &o[3]);
	sal_compile_cancel(r[1]);
	sal_compile_cancel(r[2]);
	assert_int_equal(kill(pid, SIGCONT), 0);
	bed_wait(bed, o[0].calls && o[3].calls);
	assert_int_equal(o[3].code, SAL_OK);
	assert_int_equal(bed_stats(bed).compiled, 2);
	r[2] = bed_submit(bed, TEXT(FILL), &o[2]); /* ready, but not delivered yet */
	sal_compile_cancel(r[2]);
	bed_compile(bed, TEXT(ADD));
	assert_int_equal(o[1].calls + o[2].calls, 0);
	assert_int_equal(bed_stats(bed).helper_deaths, 0);
	bed_drop(&o[0]);
	bed_drop(&o[3]);
}

static void closes_at_any_time(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome o[3] = { 0 };
	size_t size;
	char *large = bed_large_program(30000, &size);

	for (int rounds = 0; rounds < 12; rounds++) {
		bed_open(bed);
		(void)bed_submit(bed, TEXT(ADD), &o[0]);
		(void)bed_submit(bed, TEXT(COPY), &o[1]);
		(void)bed_submit(bed, (struct sal_text){ large, size }, &o[2]);
		for (int i = 0; i < rounds && !o[0].calls; i++)
			(void)uv_run(&bed->loop, UV_RUN_NOWAIT);
		for (int i = 0; i < 3; i++)
			bed_drop(&o[i]);
		bed_close(bed);
		assert_int_equal(o[0].calls + o[1].calls + o[2].calls, 0);
	}
	free(large);
}

static void closes_while_it_tells(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome o[3] = { { .close = bed } };

	bed_open(bed);
	for (int i = 0; i < 3; i++)
		(void)bed_submit(bed, TEXT(ADD), &o[i]);
	bed_wait(bed, o[0].calls);
	bed_close(bed);
	assert_int_equal(o[1].calls + o[2].calls, 0);
	bed_drop(&o[0]);
}

static void closes_with_a_stuck_helper(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome o = { 0 };
	size_t size;
	char *large = bed_large_program(30000, &size);

	bed_open(bed);
	assert_int_equal(kill(bed_helper(bed), SIGSTOP), 0);
	(void)bed_submit(bed, (struct sal_text){ large, size }, &o);
	bed_wait(bed, bed_stats(bed).running == 1);
	bed_close(bed);
	assert_int_equal(o.calls, 0);
	free(large);
}

/* Disk */

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
	bed_open(bed);
	assert_false(bed_stats(bed).has_disk);
	assert_non_null(strstr(bed_stats(bed).disk_err.text, bed->cache));
	bed_compile(bed, TEXT(ADD));
	bed_compile(bed, TEXT(ADD));
	assert_int_equal(bed_stats(bed).memory_hits, 1);
}

static void works_with_a_full_disk(void **state)
{
	struct bed *bed = *state;
	size_t size;
	char *large;

	assert_int_equal(mkdir(bed->cache, 0700), 0);
	if (mount("tmpfs", bed->cache, "tmpfs", 0, "size=128k,mode=700") != 0)
		skip();
	large = bed_large_program(20000, &size);
	bed_open(bed);
	assert_true(bed_stats(bed).has_disk);
	bed_compile(bed, (struct sal_text){ large, size });
	bed_wait(bed, bed_stats(bed).not_stored == 1);
	bed_compile(bed, TEXT(ADD));
	bed_close(bed);
	(void)mount("tmpfs", bed->cache, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL);
	bed_open(bed);
	bed_compile(bed, TEXT(ADD));
	assert_int_equal(bed_stats(bed).disk_hits, 1);
	bed_compile(bed, TEXT(COPY));
	bed_wait(bed, bed_stats(bed).not_stored == 1);
	bed_close(bed);
	assert_int_equal(umount(bed->cache), 0);
	free(large);
}

/* Seals */

static void expect_refused(struct bed *bed, const void *bytes, size_t size, int code)
{
	struct sal_err err = { 0 };
	struct sal_image *image;

	assert_int_equal(sal_image_open(bed->pool, bytes, size, &image, &err), -code);
	assert_null(image);
	assert_true(strlen(err.text) > 0);
}

static void opens_its_own_seals(void **state)
{
	struct bed *bed = *state;
	struct bed_outcome o = { 0 };
	struct sal_image *image;
	struct sal_err err = { 0 };
	void *bytes;
	size_t size;

	bed_open(bed);
	(void)bed_submit(bed, TEXT(ADD), &o);
	bed_wait(bed, o.calls);
	assert_int_equal(sal_image_seal(bed->pool, o.image, &bytes, &size, &err), SAL_OK);
	assert_int_equal(sal_image_open(bed->pool, bytes, size, &image, &err), SAL_OK);
	image = sal_compile_adopt(bed->pool, image);
	assert_ptr_equal(image, o.image);
	sal_image_unref(image);
	bed_close(bed);
	bed_open(bed);
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
	bed_close(bed);
	bed->cfg.platform_version = TEXT("fake 2");
	bed_open(bed);
	expect_refused(bed, bytes, size, SAL_FAILED_PRECONDITION);
	bed_close(bed);
	bed->cfg.platform_version = TEXT("fake 1");
	bed->cfg.cache_dir = NULL;
	bed_open(bed);
	expect_refused(bed, bytes, size, SAL_PERMISSION_DENIED);
	free(bytes);
	bed_drop(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_bed(compiles),
		with_bed(compiles_once_for_all),
		with_bed(compiles_large_ones_once),
		with_bed(finds_on_disk_after_a_restart),
		with_bed(tells_plugins_apart),
		with_bed(stores_all_it_compiled),
		with_bed(reports_errors_of_the_compiler),
		with_bed(cleans_options),
		with_bed(cancels),
		with_bed(closes_at_any_time),
		with_bed(closes_while_it_tells),
		with_bed(closes_with_a_stuck_helper),
		with_bed(works_without_a_disk),
		with_bed(works_with_a_full_disk),
		with_bed(opens_its_own_seals),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
