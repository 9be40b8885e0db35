/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool - compiled programs, from memory, from disk, or from a salus-compile helper.
 *
 * Programs are compiled in helper processes, kept warm, so that a crash of the compiler costs one request. A
 * compilation has limits of time and memory; over them its helper is killed, and those who asked are told.
 * Owners take turns: see crew.c.
 * The same program (by a cryptographic hash of program, cleaned options, plugin and device) is
 * compiled once, however many ask at the same time, and is kept in memory while used and on disk within a
 * bound. A disk that is full, unwritable or damaged costs compilations, never a request.
 *
 * The process must ignore SIGPIPE: helpers die.
 *
 * Threads: all calls and callbacks on the loop's thread, but those that say otherwise.
 */
#ifndef SAL_COMPILE_POOL_H
#define SAL_COMPILE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/err.h"
#include "base/facts.h"

#define SAL_PROGRAM_KEY_BYTES 32

struct sal_compile_pool;
struct sal_compile_request;

struct sal_compile_config {
	const char *helper_path; /* salus-compile */
	const char *plugin_path; /* for the helpers; "fake" for the fake device */
	const char *cache_dir; /* NULL: no disk cache */
	uint64_t cache_bytes; /* bound of the disk cache */
	/* These and the plugin's file are part of every key and seal (identity.h). */
	struct sal_text platform_version, device_kind;
	uint32_t api_major, api_minor;
	uint32_t helpers; /* most at once; at least one */
	uint64_t task_limit_ns; /* longest compilation; 0: SAL_COMPILE_TIME_NS */
	uint64_t task_cpu_ns; /* CPU time of one; 0: task_limit_ns on every core */
	uint64_t spare_ns; /* how long a second idle helper stays; 0: a minute */
	uint64_t helper_memory_bytes; /* private memory of a helper; 0: as much as there is */
};

/* How long a compilation may take if nobody says otherwise. */
#define SAL_COMPILE_TIME_NS (UINT64_C(15) * 60 * 1000000000)

struct sal_compile_source {
	struct sal_text format; /* "mlir" or "hlo" */
	struct sal_text program;
	struct sal_text options; /* CompileOptionsProto; see options.h for what becomes of it */
};

/* A compiled program; shared and immutable. */
struct sal_image {
	uint8_t key[SAL_PROGRAM_KEY_BYTES];
	struct sal_text facts; /* packed, see wire/facts.h */
	struct sal_text image; /* for the device's load */
	struct sal_text optimized; /* HloModuleProtoWithConfig */
};

/* image is NULL if code is not 0; otherwise the callee owns a reference. */
typedef void sal_compiled_fn(void *ctx, int code, const char *message, struct sal_image *image);

/* Who asks. */
struct sal_compile_asker {
	uint64_t owner; /* whose turn the task takes: a session's id */
	sal_compiled_fn *fn;
	void *ctx;
};

/* The configuration is copied. Starts the first helper, so that it is warm when it is needed. */
int sal_compile_pool_open(uv_loop_t *loop, const struct sal_compile_config *cfg,
			  struct sal_compile_pool **out_pool, struct sal_err *err);
/*
 * Pending requests are forgotten, helpers killed; files being written are finished. The memory goes when the
 * loop has run until the helpers are reaped: run it until nothing is left. Accepts NULL.
 */
void sal_compile_pool_close(struct sal_compile_pool *pool);

/*
 * The program's bytes come from malloc and belong to the pool from now on, also if this fails. Format and options are
 * copied. fn is called once, never before this returns.
 */
int sal_compile_submit(struct sal_compile_pool *pool, const struct sal_compile_source *take_source,
		       const struct sal_compile_asker *asker,
		       struct sal_compile_request **out_request, struct sal_err *err);
/*
 * Whoever asked is gone: fn will not be called. A task that nobody else asked for is dropped; if it is being
 * compiled, its helper is killed. Not after fn was called.
 */
void sal_compile_cancel(struct sal_compile_request *request);

/* What a request waits for. */
enum sal_compile_stage {
	SAL_COMPILE_FINDING, /* it may be in memory or on disk */
	SAL_COMPILE_QUEUED,
	SAL_COMPILE_RUNNING
};
struct sal_compile_wait {
	enum sal_compile_stage stage;
	uint64_t waited_ns; /* since it was submitted */
	uint64_t ran_ns; /* since a helper got it; 0: not yet */
	uint32_t ahead; /* queued tasks whose turn comes before */
};
void sal_compile_waiting(const struct sal_compile_request *request,
			 struct sal_compile_wait *out_wait);

/* A task that a helper has. */
struct sal_compile_run {
	uint64_t owner;
	uint64_t ran_ns;
};
/* Returns how many there are, also if there is no room for all. */
uint32_t sal_compile_runs(const struct sal_compile_pool *pool, struct sal_compile_run *out_runs,
			  uint32_t room);

/*
 * An image found by its key, from memory or disk; NULL if there is none. The caller owns a reference. The
 * disk is read on this thread: about a millisecond for each megabyte.
 */
struct sal_image *sal_compile_find(struct sal_compile_pool *pool,
				   const uint8_t key[SAL_PROGRAM_KEY_BYTES]);

/*
 * An image as bytes to be kept by others (JAX's own cache), and back. *out_bytes is owned by the caller.
 * Only what was sealed by a daemon of this user, with the same cache directory and the same vendor's plugin,
 * is opened: else -SAL_DATA_LOSS, -SAL_PERMISSION_DENIED or -SAL_FAILED_PRECONDITION. Without a cache
 * directory the seal dies with the pool. Any thread, while the pool is open: both read every byte.
 */
int sal_image_seal(const struct sal_compile_pool *pool, struct sal_image *image, void **out_bytes,
		   size_t *out_size, struct sal_err *err);
int sal_image_open(const struct sal_compile_pool *pool, const void *bytes, size_t size,
		   struct sal_image **out_image, struct sal_err *err);
/* An opened image, or the same program that the pool has already. The caller owns a reference. */
struct sal_image *sal_compile_adopt(struct sal_compile_pool *pool, struct sal_image *take_image);

/* Thread-safe. */
struct sal_image *sal_image_ref(struct sal_image *image);
/* Accepts NULL. */
void sal_image_unref(struct sal_image *image);

/* For `salus ps` and tests. */
struct sal_compile_stats {
	uint64_t compiled, memory_hits, disk_hits, failed, helper_deaths;
	uint64_t options_dropped; /* fields of options that were taken out */
	uint64_t unsaved; /* programs that the disk did not take */
	uint64_t abandoned; /* compilations ended because nobody waited any more */
	uint64_t over_limit; /* compilations ended because they took too much time or memory */
	uint32_t running;
	bool has_disk; /* false: there is no cache directory, or it cannot be used */
	struct sal_err disk_err; /* then, why */
};
void sal_compile_stats(const struct sal_compile_pool *pool, struct sal_compile_stats *out_stats);
/* Process ids of the helpers that run now; returns how many, also if there is no room for all. */
uint32_t sal_compile_helpers(const struct sal_compile_pool *pool, int *out_pids, uint32_t room);

#endif
