/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main - salusd: the one process that owns the device.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/sys/guard.h"
#include "base/log/log.h"
#include "heap/heap.h"
#include "service/options.h"
#include "service/server.h"

#define FILES_WANTED 65536u

/* The build says whether salusd defines malloc: see heap/interpose.c. */
#ifndef SAL_OWN_MALLOC
#define SAL_OWN_MALLOC 0
#endif

/* At the end, salusd waits this long for the log's last lines. */
#define LAST_LINES_MS 1000

static int open_log(const struct svc_options *o)
{
	const char *level = getenv("SALUS_LOG");
	struct sal_log_config cfg = {
		.path = o->log_path,
		.size_max_bytes = o->log_bytes,
		.level_max = level && strcmp(level, "debug") == 0 ? SAL_LOG_DEBUG : SAL_LOG_INFO,
	};
	struct sal_err err = { 0 };

	if (sal_log_start(&cfg, &err) >= 0)
		return 0;
	(void)fprintf(stderr, "salusd: %s\n", err.text);
	return -1;
}

/* Print to the original stderr, also if the log has replaced stderr. */
static void complain(int terminal, const char *text)
{
	if (terminal >= 0)
		(void)dprintf(terminal, "salusd: %s\n", text);
}

/* Raise the limit of open files: a session has five. */
static void allow_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= FILES_WANTED)
		return;
	limit.rlim_cur = limit.rlim_max < FILES_WANTED ? limit.rlim_max : FILES_WANTED;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
	static struct svc_setup setup;
	static struct svc_server server;
	struct svc_options *o = &setup.options;
	int code, rc, terminal;
	bool has_heap;

	code = svc_setup_read(&setup, argc, argv);
	if (code >= 0)
		return code;
	sal_guard_memory();
	has_heap = !SAL_OWN_MALLOC || sal_heap_start();
	terminal = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (open_log(o) < 0)
		return SVC_EXIT_CONFIG;
	if (!has_heap)
		sal_log_warn("server", "no address range for memory: the memory that the device "
				       "really uses is not measured");
	(void)signal(SIGPIPE, SIG_IGN);
	allow_files();
	(void)setenv("TF_CPP_MIN_LOG_LEVEL", "1", 0); /* fewer vendor messages, also in helpers */
	rc = svc_server_open(&server, o, &setup.err);
	if (rc >= 0) {
		sal_log_info("server", "ready socket=%s plugin=%s policy=%s", o->socket_path,
			     o->plugin_path, sal_policy_name(o->policy));
		svc_server_run(&server);
	} else {
		sal_log_error("server", "%s", setup.err.text);
		complain(terminal, setup.err.text);
	}
	svc_server_close(&server);
	sal_log_stop(LAST_LINES_MS);
	svc_setup_fini(&setup);
	if (rc >= 0)
		return 0;
	if (rc == -SAL_ALREADY_EXISTS)
		return SVC_EXIT_TRY_LATER;
	return rc == -SAL_PERMISSION_DENIED ? SVC_EXIT_PERMISSION : 1;
}
