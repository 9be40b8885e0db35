/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper - one salus-compile process. It gets one question at a time, and the pool does not trust
 * it.
 *
 * The process exits by itself when its input is closed. The pool kills a helper that sends a
 * malformed answer. Each end is reported once, after the process has been reaped. The memory is
 * freed when the loop has closed the handles.
 *
 * Threads: the loop's.
 */
#ifndef SAL_COMPILE_HELPER_H
#define SAL_COMPILE_HELPER_H

#include <stdbool.h>

#include <uv.h>

#include "compile/allowance.h"
#include "compile/pool/pool.h"

struct sal_helper;

struct sal_helper_events {
	/*
	 * The answer. image is NULL if code is not 0. Otherwise the callee owns a reference; the
	 * key is not set.
	 */
	void (*answered)(void *ctx, int code, const char *message, struct sal_image *image);
	/*
	 * The process is gone. A pending answer will not arrive. end says how the process ended.
	 */
	void (*ended)(void *ctx, const struct sal_err *end);
	/* The handles are closed; ctx is not used any more. */
	void (*closed)(void *ctx);
};

struct sal_helper_config {
	/* These are read by sal_helper_start only. */
	const char *path, *plugin;
	const char *const *plugin_options; /* ends with NULL; or NULL */
	struct sal_helper_limits limits;
	const struct sal_helper_events *events;
	void *ctx;
};

/* On failure no event follows. */
int sal_helper_start(uv_loop_t *loop, const struct sal_helper_config *cfg,
		     struct sal_helper **out_helper, struct sal_err *err);

/* Only if no answer is pending. The bytes must stay valid until `answered` or `ended`. */
int sal_helper_ask(struct sal_helper *h, uint64_t id, const struct sal_compile_source *source,
		   struct sal_err *err);

/* Kills the process; `ended` follows. */
void sal_helper_stop(struct sal_helper *h);

/* True if the helper can take a question. */
bool sal_helper_is_idle(const struct sal_helper *h);
int sal_helper_pid(const struct sal_helper *h);

#endif
