/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bed - a fixture for tests of the pool: a loop, a folder, and the outcomes of requests.
 *
 * The helper is salus-compile, whose path is in SAL_COMPILE, with the fake device. A test may
 * change cfg before it opens the pool. All waits have a deadline.
 */
#ifndef SAL_TESTS_BED_H
#define SAL_TESTS_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/pool/pool.h"
#include "unit/compile/folder.h"

#define BED_DEADLINE_NS (UINT64_C(60) * 1000000000)
#define TEXT(literal) ((struct sal_text){ literal, sizeof(literal) - 1 })
#define ADD "fake 1\nname add\noutput f32 4 = add 0 1\n"
#define COPY "fake 1\nname copy\noutput f32 4 = copy 0\n"
#define FILL "fake 1\nname fill\noutput u8 8 = fill 1\n"

struct bed {
	uv_loop_t loop;
	uv_timer_t ticker; /* wakes the loop, so that waits have a deadline */
	struct sal_compile_pool *pool;
	struct sal_compile_config cfg;
	char *folder;
	char cache[FOLDER_PATH];
	char helper_path[FOLDER_PATH]; /* for a test's own helper */
};

struct bed_outcome {
	int calls, code;
	char message[512];
	struct sal_image *image;
	struct bed *close; /* the callback closes the pool of this bed */
	int *counter; /* counts the callbacks of several requests; may be NULL */
	int order; /* the value of *counter in the callback */
};

#define with_bed(test) cmocka_unit_test_setup_teardown(test, bed_make, bed_remove)

#define bed_wait(bed, condition)                                            \
	do {                                                                \
		uint64_t end_ = uv_hrtime() + BED_DEADLINE_NS;              \
		while (!(condition)) {                                      \
			if (uv_hrtime() > end_)                             \
				fail_msg("waited in vain for " #condition); \
			(void)uv_run(&(bed)->loop, UV_RUN_ONCE);            \
		}                                                           \
	} while (0)

int bed_make(void **state);
int bed_remove(void **state);
void bed_open(struct bed *bed);
/* Runs the loop until it has nothing left to do. */
void bed_close(struct bed *bed);

struct sal_compile_stats bed_stats(const struct bed *bed);
/* Process id of the only helper. */
int bed_helper(const struct bed *bed);

void bed_compiled(void *ctx, int code, const char *message, struct sal_image *image);
/* A copy from malloc, as sal_compile_submit takes it. */
struct sal_text bed_copy(struct sal_text text);
struct sal_compile_request *bed_submit(struct bed *bed, struct sal_text program,
				       struct bed_outcome *o);
struct sal_compile_request *bed_submit_as(struct bed *bed, uint64_t owner, struct sal_text program,
					  struct bed_outcome *o);
void bed_drop(struct bed_outcome *o);
/* Compile, and expect success, or a failure with this code and text. The owner is 1 by default. */
void bed_compile(struct bed *bed, struct sal_text program);
void bed_compile_as(struct bed *bed, uint64_t owner, struct sal_text program);
void bed_expect(struct bed *bed, struct sal_text program, int code, const char *text);
/* ADD with this many comment lines. The caller frees it. */
char *bed_large_program(size_t lines, size_t *out_size);

#endif
