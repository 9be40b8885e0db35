/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load - a policy's file that a person names while jobs run (loader/loader.h).
 *
 * Reading the file and running its constructors may block. So a thread of libuv does it, without
 * server->lock, and nobody but the asker waits. There is one load at a time: a file that blocks
 * takes one thread of libuv, not all of them.
 *
 * Threads: the main thread.
 */
#ifndef SAL_SERVICE_LOAD_H
#define SAL_SERVICE_LOAD_H

#include <stdbool.h>

#include <uv.h>

#include "base/err.h"

struct sal_loaded;
struct sal_policy;
struct svc_server;

struct svc_load {
	uv_work_t work;
	char *path; /* owned; NULL: there is no load */
	struct sal_loaded *loaded; /* owned: the result; NULL: err says why */
	struct sal_err err;
	void (*done)(void *ctx); /* NULL: nobody waits */
	void *ctx;
};

/*
 * Start to load a file; svc_load_await must follow. -SAL_UNAVAILABLE: another file is being loaded.
 */
int svc_load_start(struct svc_server *server, const char *path, struct sal_err *err);
/* Call done(ctx) when the load has ended. */
void svc_load_await(struct svc_server *server, void (*done)(void *ctx), void *ctx);
/* The waiter is gone. The result will be dropped. */
void svc_load_forget(struct svc_server *server);
/* Within done: take the result, and add the policy to the loaded ones. */
int svc_load_take(struct svc_server *server, const struct sal_policy **out_policy,
		  struct sal_err *err);

/* A built-in policy or a loaded one, by its name; NULL: there is none. */
const struct sal_policy *svc_find_policy(const struct svc_server *server, const char *name);

#endif
