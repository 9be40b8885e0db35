/* SPDX-License-Identifier: Apache-2.0 */
#include "service/load.h"

#include <stdlib.h>
#include <string.h>

#include "loader/loader.h"
#include "service/server.h"

/* In a thread of libuv. */
static void on_load(uv_work_t *work)
{
	struct svc_server *server = work->data;

	svc_assert_unlocked(server);
	(void)sal_loaded_open(server->load.path, &server->load.loaded, &server->load.err);
}

static void on_ended(uv_work_t *work, int status)
{
	struct svc_server *server = work->data;
	struct svc_load *load = &server->load;

	(void)status;
	server->preparing--;
	if (load->done)
		load->done(load->ctx);
	sal_loaded_close(load->loaded); /* if nobody took it */
	load->loaded = NULL;
	free(load->path);
	load->path = NULL;
}

int svc_load_start(struct svc_server *server, const char *path, struct sal_err *err)
{
	struct svc_load *load = &server->load;

	if (load->path)
		return sal_err_set(err, SAL_UNAVAILABLE,
				   "another policy file is being loaded, %.200s: try again",
				   load->path);
	*load = (struct svc_load){ .path = strdup(path) };
	if (!load->path)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	load->work.data = server;
	server->preparing++;
	(void)uv_queue_work(&server->loop, &load->work, on_load, on_ended);
	return SAL_OK;
}

void svc_load_await(struct svc_server *server, void (*done)(void *ctx), void *ctx)
{
	server->load.done = done;
	server->load.ctx = ctx;
}

void svc_load_forget(struct svc_server *server)
{
	server->load.done = NULL;
}

int svc_load_take(struct svc_server *server, const struct sal_policy **out_policy,
		  struct sal_err *err)
{
	struct sal_loaded *loaded = server->load.loaded;

	*out_policy = NULL;
	if (!loaded)
		return sal_err_set(err, server->load.err.code, "%s", server->load.err.text);
	server->load.loaded = NULL;
	return sal_loader_add(server->options.loader, loaded, out_policy, err);
}

const struct sal_policy *svc_find_policy(const struct svc_server *server, const char *name)
{
	const struct sal_policy *policy = sal_policy_find(name);

	if (!policy && server->options.loader)
		policy = sal_loader_find(server->options.loader, name);
	return policy;
}
