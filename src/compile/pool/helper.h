/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper - one salus-compile process, as the pool sees it: asked one thing at a time, not trusted.
 *
 * It ends by itself when its input does. One that says what is no answer is killed. However it ends, that is
 * told once, after it has been reaped; its memory goes when the loop has closed its handles.
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
	/* The answer. image is NULL if code is not 0, else the callee owns a reference; its key is not set. */
	void (*answered)(void *ctx, int code, const char *message, struct sal_image *image);
	/* It is gone, and with it the answer, if one is due: fate says how it ended. */
	void (*ended)(void *ctx, const struct sal_err *fate);
	/* Its handles are closed, ctx is not used any more. */
	void (*closed)(void *ctx);
};

struct sal_helper_config {
	const char *path, *plugin; /* used by start only */
	struct sal_helper_limits limits;
	const struct sal_helper_events *events;
	void *ctx;
};

/* On failure no event is called. */
int sal_helper_start(uv_loop_t *loop, const struct sal_helper_config *cfg,
		     struct sal_helper **out_helper, struct sal_err *err);

/* Only if no answer is due. The bytes must stay until it answered or ended. */
int sal_helper_ask(struct sal_helper *h, uint64_t id, const struct sal_compile_source *source,
		   struct sal_err *err);

/* Kills it; `ended` follows. */
void sal_helper_stop(struct sal_helper *h);

/* Can it be asked? */
bool sal_helper_is_idle(const struct sal_helper *h);
int sal_helper_pid(const struct sal_helper *h);

#endif
