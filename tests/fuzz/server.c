/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct {
	struct svc_server server;
	pthread_t thread;
	bool is_open, is_running;
	uv_async_t stop;
	char folder[32], path[64];
} fuzz;

static void on_stop(uv_async_t *async)
{
	uv_stop(async->loop);
}

static void *serve(void *arg)
{
	svc_server_run(arg);
	return NULL;
}

static void close_server(void)
{
	if (fuzz.is_running) {
		(void)uv_async_send(&fuzz.stop);
		(void)pthread_join(fuzz.thread, NULL);
	}
	svc_server_close(&fuzz.server);
	(void)snprintf(fuzz.path, sizeof(fuzz.path), "%s/s.lock", fuzz.folder);
	(void)unlink(fuzz.path);
	(void)rmdir(fuzz.folder);
}

static void die(const char *why)
{
	(void)fprintf(stderr, "fuzz: %s\n", why);
	abort();
}

struct svc_server *fuzz_server(bool is_running)
{
	struct svc_options options = {
		.trace_records = SVC_TRACE_ENTRIES,
		.plugin_path = "fake",
		.helper_path = getenv("SAL_COMPILE") ? getenv("SAL_COMPILE") : SAL_COMPILE_PATH,
		.memory_bytes = 64u << 20,
		.limits.max[SVC_JOB][SVC_ARENA_BYTES] = 256u << 20,
		.lanes = 1,
		.policy = &sal_policy_fair,
	};
	struct sal_err err = { 0 };

	if (fuzz.is_open)
		return &fuzz.server;
	(void)signal(SIGPIPE, SIG_IGN);
	(void)snprintf(fuzz.folder, sizeof(fuzz.folder), "/tmp/salus-fuzz-XXXXXX");
	if (!mkdtemp(fuzz.folder))
		die("no folder in /tmp");
	(void)snprintf(fuzz.path, sizeof(fuzz.path), "%s/s", fuzz.folder);
	options.socket_path = fuzz.path;
	if (svc_server_open(&fuzz.server, &options, &err) < 0)
		die(err.text);
	fuzz.is_open = true;
	fuzz.is_running = is_running;
	fuzz.stop.data = &fuzz.server; /* closed with the server's other handles */
	if (is_running && (uv_async_init(&fuzz.server.loop, &fuzz.stop, on_stop) < 0 ||
			   pthread_create(&fuzz.thread, NULL, serve, &fuzz.server) != 0))
		die("no thread");
	(void)atexit(close_server);
	return &fuzz.server;
}

const char *fuzz_server_path(void)
{
	return fuzz.path;
}
