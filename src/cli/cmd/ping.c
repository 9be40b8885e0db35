/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ping - `salus ping`: whether a salusd answers, and which.
 */
#include <stdio.h>

#include "base/units.h"
#include "cli/ask.h"
#include "cli/cli.h"

static int show_ping(const json_t *reply, const void *unused)
{
	double uptime_s = json_number_value(json_object_get(reply, "uptime_s"));
	const char *log = cli_json_text(reply, "log");
	char up[SAL_UNITS_TEXT];

	(void)unused;
	(void)printf("salusd %s: pid %lld, platform %s, policy %s, up %s\n",
		     cli_json_text(reply, "version"),
		     (long long)json_integer_value(json_object_get(reply, "pid")),
		     cli_json_text(reply, "platform"), cli_json_text(reply, "policy"),
		     sal_duration_format(cli_seconds_to_ns(uptime_s), up, sizeof(up)));
	if (*log)
		(void)printf("log: %s\n", log);
	return cli_flush();
}

static int run_ping(int argc, char **argv)
{
	bool json;
	int rc = cli_parse_json_flag(&cli_cmd_ping, argc, argv, &json);

	if (rc != CLI_OK)
		return rc;
	return cli_ask_and_show(json_pack("{s:s}", "op", "ping"), json, show_ping, NULL);
}

const struct cli_command cli_cmd_ping = {
	.name = "ping",
	.summary = "ask whether a salusd answers, and which",
	.usage = "[--json] [--socket PATH]\n"
		 "\n"
		 "Exits with 69 if no salusd answers within 5 s.\n",
	.run = run_ping,
};
