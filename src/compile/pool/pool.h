/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool - compiled programs, from memory, from the disk, or from a salus-compile helper.
 *
 * Helper processes compile the programs and stay warm, so a crash of the compiler costs one
 * request. A compilation has limits of time and memory. The pool kills a helper that exceeds a
 * limit, and the request fails. Owners take turns: see owner.c.
 *
 * A program is compiled once, however many clients ask for it at the same time. Its key is a
 * cryptographic hash of the program, the cleaned options, the plugin and the device. A compiled
 * program stays in memory while it is used, and on disk within a size limit. A full, unwritable or
 * damaged disk costs compilations, never a request.
 *
 * The process must ignore SIGPIPE, since helpers may die.
 *
 * Threads: all calls and callbacks on the loop's thread, except where a comment says otherwise.
 */
#ifndef SAL_COMPILE_POOL_H
#define SAL_COMPILE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/err.h"
#include "base/facts.h"
#include "compile/store/image.h"
#include "compile/store/key.h"

struct sal_compile_pool;
struct sal_compile_request;

struct sal_compile_config {
	const char *helper_path; /* path of salus-compile */
	const char *plugin_path; /* the helpers' plugin; "fake": the fake device */
	/* For the helpers' clients (device/option.h); ends with NULL; the pool borrows them. */
	const char *const *plugin_options;
	const char *cache_dir; /* NULL: no disk cache */
	uint64_t cache_bytes; /* size limit of the disk cache */
	/* These, the plugin's file and its options are part of every key and seal (identity.h). */
	struct sal_text platform_version, device_kind;
	uint32_t api_major, api_minor;
	uint32_t helpers; /* number of helpers at most; 0: one */
	uint64_t task_limit_ns; /* time limit of a compilation; 0: SAL_COMPILE_TIME_NS */
	uint64_t task_cpu_ns; /* CPU time limit of a compilation; 0: task_limit_ns on every core */
	uint64_t spare_ns; /* a second idle helper ends after this; 0: a minute */
	uint64_t helper_memory_bytes; /* limit of a helper's private memory; 0: none */
};

/* The default time limit of a compilation. */
#define SAL_COMPILE_TIME_NS (UINT64_C(15) * 60 * 1000000000)

/* image is NULL if code is not 0. Otherwise the callee owns a reference. */
typedef void sal_compiled_fn(void *ctx, int code, const char *message, struct sal_image *image);

/* The sender of a request. */
struct sal_compile_asker {
	uint64_t owner; /* the task takes this owner's turn: a session's id */
	sal_compiled_fn *fn;
	void *ctx;
};

/*
 * Copies the configuration. Starts the first helper, so that a warm helper is ready for the first
 * task.
 */
int sal_compile_pool_open(uv_loop_t *loop, const struct sal_compile_config *cfg,
			  struct sal_compile_pool **out_pool, struct sal_err *err);
/*
 * Drops pending requests, kills the helpers, and finishes all writes to the disk. The memory is
 * freed when the helpers are reaped: run the loop until it has nothing left to do. Accepts NULL.
 */
void sal_compile_pool_close(struct sal_compile_pool *pool);

/*
 * The program's bytes come from malloc. The pool owns them from now on, also if this call fails.
 * Format and options are copied. fn is called once, and never before this call returns.
 */
int sal_compile_submit(struct sal_compile_pool *pool, const struct sal_compile_source *take_source,
		       const struct sal_compile_asker *asker,
		       struct sal_compile_request **out_request, struct sal_err *err);
/*
 * The sender is gone: fn will not be called. If nobody else waits for the task, the task is
 * dropped; if a helper compiles it, the helper is killed. Must not be called after fn was called.
 */
void sal_compile_cancel(struct sal_compile_request *request);

/* The progress of a request. */
enum sal_compile_stage {
	SAL_COMPILE_FINDING, /* searches memory and disk */
	SAL_COMPILE_QUEUED,
	SAL_COMPILE_RUNNING
};
struct sal_compile_wait {
	enum sal_compile_stage stage;
	uint64_t waited_ns; /* since the submission */
	uint64_t ran_ns; /* since a helper got the task; 0: still queued */
	uint32_t ahead; /* queued tasks whose turn comes earlier */
};
void sal_compile_waiting(const struct sal_compile_request *request,
			 struct sal_compile_wait *out_wait);

/* A task that a helper compiles. */
struct sal_compile_run {
	uint64_t owner;
	uint64_t ran_ns;
};
/* Returns the number of running tasks, also if it exceeds room. */
uint32_t sal_compile_runs(const struct sal_compile_pool *pool, struct sal_compile_run *out_runs,
			  uint32_t room);

/*
 * Finds an image by its key, in memory or on disk. NULL: not found. The caller owns a reference.
 * Reads the disk on this thread: about a millisecond for each megabyte.
 */
struct sal_image *sal_compile_find(struct sal_compile_pool *pool,
				   const uint8_t key[SAL_PROGRAM_KEY_BYTES]);

/*
 * Converts an image to bytes that others may store (JAX's own cache), and back. The caller owns
 * *out_bytes. sal_image_open accepts only bytes sealed by a daemon of this user, with the same
 * cache directory and the same vendor's plugin; else it returns -SAL_DATA_LOSS,
 * -SAL_PERMISSION_DENIED or -SAL_FAILED_PRECONDITION. Without a cache directory, a seal is valid as
 * long as the pool lives. Any thread, while the pool is open: both calls read every byte.
 */
int sal_image_seal(const struct sal_compile_pool *pool, struct sal_image *image, void **out_bytes,
		   size_t *out_size, struct sal_err *err);
int sal_image_open(const struct sal_compile_pool *pool, const void *bytes, size_t size,
		   struct sal_image **out_image, struct sal_err *err);
/*
 * Puts an opened image into the pool, or finds the same program there. The caller owns a reference.
 */
struct sal_image *sal_compile_adopt(struct sal_compile_pool *pool, struct sal_image *take_image);

/* For `salus ps` and tests. */
struct sal_compile_stats {
	uint64_t compiled, memory_hits, disk_hits, failed, helper_deaths;
	uint64_t options_dropped; /* option fields that the filter dropped */
	uint64_t not_stored; /* programs that were not written to the disk */
	uint64_t abandoned; /* compilations that ended because nobody waited any more */
	uint64_t over_limit; /* compilations that exceeded the limit of time or memory */
	uint32_t running;
	bool has_disk; /* false: no cache directory, or it is not usable */
	struct sal_err disk_err; /* the reason, if has_disk is false */
};
void sal_compile_stats(const struct sal_compile_pool *pool, struct sal_compile_stats *out_stats);
/* Process ids of the running helpers. Returns their number, also if it exceeds room. */
uint32_t sal_compile_helpers(const struct sal_compile_pool *pool, int *out_pids, uint32_t room);

#endif
