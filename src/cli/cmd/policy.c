/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy - `salus policy [NAME] [A=B ...]`: which rule ranks the jobs, how it is tuned, and how
 * many lanes there are.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
			return cli_usage_error(&cli_cmd_policy, "--lanes wants a number, or auto");
	}
	*argc = n;
	return CLI_OK;
}

static int add_lanes(json_t *request, const char *text)
{
	char *end;
	unsigned long lanes;

	if (strcmp(text, "auto") == 0) {
		(void)json_object_set_new(request, "lanes", json_string(text));
		return CLI_OK;
	}
	errno = 0;
	lanes = strtoul(text, &end, 10);
	if (!*text || text[strspn(text, "0123456789")] != '\0' || errno || lanes > 1000000)
		return cli_usage_error(&cli_cmd_policy,
				       "--lanes is \"%s\", expected auto or a number; 0: as many "
				       "as the policy wants",
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

/* Why there are at most so many lanes. */
static const char *reason(const json_t *reply)
{
	const json_t *lanes = json_object_get(reply, "lanes");

	if (json_is_string(lanes))
		return " (those that pay)";
	return json_integer_value(lanes) == 0 ? " (as the policy wants)" : "";
}

static int show_policy(const json_t *reply, const void *ctx)
{
	const struct request *q = ctx;
	bool changed = q->words.count > 0 || q->lanes;
	double limit = cli_json_number(reply, "lane_limit");

	if (!changed)
		print_list(reply);
	(void)printf("%s%s, at most %.0f lane%s%s\n", changed ? "" : "\n",
		     cli_json_text(reply, "policy"), limit, limit == 1 ? "" : "s", reason(reply));
	print_tuning(reply, q);
	return cli_flush();
}

/* salusd has another current directory: a file's path is sent from the root on. */
static int add_name(json_t *request, const char *name)
{
	char *folder = NULL;

	if (strchr(name, '/') && *name != '/') {
		folder = getcwd(NULL, 0);
		if (!folder) {
			(void)fprintf(stderr, "salus: no current directory: %s\n", strerror(errno));
			return CLI_FAILED;
		}
	}
	(void)json_object_set_new(request, "name",
				  folder ? json_sprintf("%s/%s", folder, name) : json_string(name));
	free(folder);
	return CLI_OK;
}

static bool is_tune(const char *word)
{
	return strchr(word, '=') && !strchr(word, '/');
}

/* [NAME] [A=B ...] */
static int add_words(json_t *request, const struct cli_words *words)
{
	json_t *tune = json_array();
	int i, rc = CLI_OK;

	for (i = 0; rc == CLI_OK && i < words->count; i++) {
		if (is_tune(words->at[i]))
			(void)json_array_append_new(tune, json_string(words->at[i]));
		else if (i == 0)
			rc = add_name(request, words->at[0]);
		else
			break;
	}
	if (json_array_size(tune) > 0)
		(void)json_object_set(request, "tune", tune);
	json_decref(tune);
	if (rc != CLI_OK)
		return rc;
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
	.usage = "[NAME|FILE] [A=B ...] [--lanes N] [--json] [--socket PATH]\n"
		 "\n"
		 "  NAME       the policy from now on; without it, all are listed\n"
		 "  FILE       the same, from a shared object; a word with a '/', e.g. ./mine.so\n"
		 "  A=B        tune: a parameter of the policy, or a knob; both are listed\n"
		 "  --lanes N  most lanes at once; 0: as many as the policy wants;\n"
		 "             auto: those that pay\n"
		 "\n"
		 "A policy that is chosen starts with its own defaults; knobs stay as they are.\n"
		 "What runs goes on to its end; the next decision is the new policy's.\n",
	.run = run_policy,
};
