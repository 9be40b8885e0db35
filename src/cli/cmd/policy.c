/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy - `salus policy [NAME] [A=B ...]`: which rule ranks the jobs, how it is tuned, and how
 * many lanes there are.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ask.h"
#include "cli/cli.h"

struct request {
	const char *lanes; /* NULL: leave it */
	struct cli_words words;
};

/* Takes `--lanes N` out of the line. */
static int parse(struct request *q, int *argc, char **argv)
{
	int i, n = 1;

	for (i = 1; i < *argc; i++) {
		if (strcmp(argv[i], "--lanes") != 0)
			argv[n++] = argv[i];
		else if (++i < *argc)
			q->lanes = argv[i];
		else
			return cli_usage_error(&cli_cmd_policy, "--lanes wants a number");
	}
	*argc = n;
	return CLI_OK;
}

static int add_lanes(json_t *request, const char *text)
{
	char *end;
	unsigned long lanes;

	errno = 0;
	lanes = strtoul(text, &end, 10);
	if (!*text || text[strspn(text, "0123456789")] != '\0' || errno || lanes > 1000000)
		return cli_usage_error(&cli_cmd_policy,
				       "--lanes is \"%s\", expected a number; 0: as many as the "
				       "policy wants",
				       text);
	(void)json_object_set_new(request, "lanes", json_integer((json_int_t)lanes));
	return CLI_OK;
}

/* Does the call change what has this name? */
static bool is_tuned(const struct request *q, const char *name)
{
	int i;

	for (i = 0; i < q->words.count; i++)
		if (strncmp(q->words.at[i], name, strlen(name)) == 0 &&
		    q->words.at[i][strlen(name)] == '=')
			return true;
	return false;
}

static void print_list(const json_t *reply)
{
	const json_t *list = json_object_get(reply, "policies");
	size_t i;

	for (i = 0; i < json_array_size(list); i++) {
		const json_t *policy = json_array_get(list, i);
		const char *name = cli_json_text(policy, "name");

		(void)printf("%c %-9s %s\n",
			     strcmp(name, cli_json_text(reply, "policy")) == 0 ? '*' : ' ', name,
			     cli_json_text(policy, "idea"));
	}
}

/* What can be tuned; all of it, or only what the call named. */
static void print_tuning(const json_t *reply, const struct request *q)
{
	const json_t *list = json_object_get(reply, "tuning");
	size_t i;

	for (i = 0; i < json_array_size(list); i++) {
		const json_t *param = json_array_get(list, i);
		const char *name = cli_json_text(param, "name");
		char words[80];

		if ((q->words.count > 0 || q->lanes) && !is_tuned(q, name))
			continue;
		(void)snprintf(words, sizeof(words), "%s=%s", name, cli_json_text(param, "value"));
		(void)printf("  %-18s %s (%s to %s, default %s)\n", words,
			     cli_json_text(param, "about"), cli_json_text(param, "min"),
			     cli_json_text(param, "max"), cli_json_text(param, "default"));
	}
}

static int show_policy(const json_t *reply, const void *ctx)
{
	const struct request *q = ctx;
	bool changed = q->words.count > 0 || q->lanes;
	double limit = cli_json_number(reply, "lane_limit");

	if (!changed)
		print_list(reply);
	(void)printf("%s%s, at most %.0f lane%s%s\n", changed ? "" : "\n",
		     cli_json_text(reply, "policy"), limit, limit == 1 ? "" : "s",
		     cli_json_number(reply, "lanes") == 0 ? " (as the policy wants)" : "");
	print_tuning(reply, q);
	return cli_flush();
}

/* [NAME] [A=B ...] */
static int add_words(json_t *request, const struct cli_words *words)
{
	json_t *tune = json_array();
	int i;

	for (i = 0; i < words->count; i++) {
		if (strchr(words->at[i], '='))
			(void)json_array_append_new(tune, json_string(words->at[i]));
		else if (i == 0)
			(void)json_object_set_new(request, "name", json_string(words->at[0]));
		else
			break;
	}
	if (json_array_size(tune) > 0)
		(void)json_object_set(request, "tune", tune);
	json_decref(tune);
	if (i < words->count)
		return cli_usage_error(&cli_cmd_policy, "\"%s\": expected NAME=VALUE",
				       words->at[i]);
	return CLI_OK;
}

static int run_policy(int argc, char **argv)
{
	struct request q = { 0 };
	json_t *request;
	int rc = parse(&q, &argc, argv);

	if (rc == CLI_OK)
		rc = cli_parse_words(&cli_cmd_policy, argc, argv, &q.words);
	if (rc != CLI_OK)
		return rc;
	request = json_pack("{s:s}", "op", "policy");
	rc = add_words(request, &q.words);
	if (rc == CLI_OK && q.lanes)
		rc = add_lanes(request, q.lanes);
	if (rc != CLI_OK) {
		json_decref(request);
		return rc;
	}
	return cli_ask_and_show(request, q.words.json, show_policy, &q);
}

const struct cli_command cli_cmd_policy = {
	.name = "policy",
	.summary = "which policies there are, and choosing one while jobs run",
	.usage = "[NAME] [A=B ...] [--lanes N] [--json] [--socket PATH]\n"
		 "\n"
		 "  NAME       the policy from now on; without it, all are listed\n"
		 "  A=B        tune: a parameter of the policy, or a knob; both are listed\n"
		 "  --lanes N  most lanes at once; 0: as many as the policy wants\n"
		 "\n"
		 "A policy that is chosen starts with its own defaults; knobs stay as they are.\n"
		 "What runs goes on to its end; the next decision is the new policy's.\n",
	.run = run_policy,
};
