/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon/job_place.h"

#include <stdio.h>

#include "cli/admin.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/daemon/log_tail.h"
#include "cli/daemon/private_daemon.h"

#define START_MS 60000

/* The daemon that SALUS_SOCKET names. Salus does not start it: whoever set the variable does. */
static int find_given(const char *socket, json_t **out_ping)
{
	json_t *request = json_pack("{s:s}", "op", "ping");
	struct sal_err err = { 0 };
	int rc = cli_admin_ask(socket, request, CLI_ANSWER_MS, out_ping, &err);

	json_decref(request);
	if (rc < 0)
		return cli_unreachable(socket, true, rc, &err);
	rc = cli_refusal(out_ping, &err);
	return rc < 0 ? cli_fail(CLI_UNREACHABLE, &err) : CLI_OK;
}

/* The user's own daemon. Starts it if it does not answer. */
static int find_private(const char *socket, json_t **out_ping)
{
	char dir[SAL_PATH_BYTES], lock[SAL_PATH_BYTES + 16], log[SAL_PATH_BYTES];
	char program[SAL_PATH_BYTES];
	struct cli_private_daemon d = { .socket = socket, .wait_ms = START_MS, .log_from = -1 };
	struct sal_err err = { 0 };
	int rc = sal_path_runtime_dir(dir, sizeof(dir), &err);

	if (rc >= 0)
		rc = sal_path_make_private(dir, &err);
	if (rc >= 0)
		rc = sal_path_log(log, sizeof(log), &err);
	if (rc >= 0)
		rc = sal_path_program("salusd", program, sizeof(program), &err);
	if (rc >= 0) {
		(void)snprintf(lock, sizeof(lock), "%s/start.lock", dir);
		d.program = program;
		d.lock = lock;
		d.log = log;
		rc = cli_private_daemon_ensure(&d, out_ping, &err);
	}
	if (rc >= 0)
		return CLI_OK;
	(void)cli_fail(CLI_RUN_FAILED, &err);
	if (d.log_from >= 0)
		cli_log_tail(stderr, log, d.log_from);
	return CLI_RUN_FAILED;
}

static int find_daemon(char *socket, size_t size, json_t **out_ping)
{
	struct sal_err err = { 0 };
	bool is_given;

	if (sal_path_socket(socket, size, &is_given, &err) < 0)
		return cli_fail(CLI_RUN_FAILED, &err);
	return is_given ? find_given(socket, out_ping) : find_private(socket, out_ping);
}

int cli_job_place_init(struct cli_job_place *place, struct cli_job_env *env)
{
	struct sal_err err = { 0 };
	int rc;

	place->ping = NULL;
	if (sal_path_plugin(place->plugin, sizeof(place->plugin), &err) < 0)
		return cli_fail(CLI_RUN_FAILED, &err);
	rc = find_daemon(place->socket, sizeof(place->socket), &place->ping);
	if (rc != CLI_OK)
		return rc;
	env->socket = place->socket;
	env->plugin = place->plugin;
	env->platform = cli_json_text(place->ping, "platform");
	/* Without the modules a job still runs, by JAX's own list of plugins. */
	if (sal_path_modules(place->modules, sizeof(place->modules), NULL) >= 0)
		env->modules = place->modules;
	return CLI_OK;
}

void cli_job_place_fini(struct cli_job_place *place)
{
	json_decref(place->ping);
}
