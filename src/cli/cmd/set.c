/* SPDX-License-Identifier: Apache-2.0 */
/*
 * set - `salus set JOB KEY=VALUE...`: change weight, priority, limit, time, kind or deadline of a
 * job.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "cli/ask.h"
#include "cli/cli.h"

/* A decimal number without sign, exponent or blank. NULL if the text is none. */
static json_t *read_number(const char *text, const char *allowed)
{
	char *end;
	double value = strtod(text, &end);

	if (!*text || text[strspn(text, allowed)] != '\0' || *end != '\0' || value > 1e15)
		return NULL;
	return strchr(allowed, '.') ? json_real(value) : json_integer((json_int_t)value);
}

static json_t *read_weight(const char *text)
{
	return read_number(text, "0123456789.");
}

static json_t *read_priority(const char *text)
{
	return read_number(text, "0123456789");
}

static json_t *read_limit(const char *text)
{
	uint64_t bytes = 0;

	if (strcmp(text, "none") != 0 && sal_bytes_parse(text, &bytes, NULL) < 0)
		return NULL;
	return json_integer((json_int_t)bytes);
}

static json_t *read_time(const char *text)
{
	uint64_t ns = 0;

	if (strcmp(text, "unknown") != 0 && sal_duration_parse(text, &ns, NULL) < 0)
		return NULL;
	return json_real((double)ns / 1e9);
}

static json_t *read_deadline(const char *text)
{
	uint64_t ns = 0;

	if (strcmp(text, "none") != 0 && (sal_duration_parse(text, &ns, NULL) < 0 || ns == 0))
		return NULL;
	return json_real((double)ns / 1e9);
}

static json_t *read_kind(const char *text)
{
	return strcmp(text, "training") == 0 || strcmp(text, "inference") == 0 ? json_string(text)
									       : NULL;
}

static const struct {
	const char *name;
	const char *key; /* of the request */
	json_t *(*read)(const char *text);
	const char *expected;
} keys[] = {
	{ "weight", "weight", read_weight, "a number such as 2 or 0.5" },
	{ "priority", "priority", read_priority, "a whole number from 0 (first)" },
	{ "limit", "memory", read_limit, "a size such as 4GiB, or none" },
	{ "memory", "memory", read_limit, "a size such as 4GiB, or none" }, /* its name before */
	{ "time", "time", read_time, "a duration such as 90min, or unknown" },
	{ "kind", "kind", read_kind, "training or inference" },
	{ "deadline", "deadline", read_deadline, "a duration such as 20ms, or none" },
};

#define KEYS SAL_COUNT(keys)

static int add_wish(json_t *request, const char *word)
{
	const char *value = strchr(word, '=');
	size_t i;
	json_t *json;

	for (i = 0; value && i < KEYS; i++)
		if (strncmp(keys[i].name, word, (size_t)(value - word)) == 0 &&
		    keys[i].name[value - word] == '\0')
			break;
	if (!value || i == KEYS)
		return cli_usage_error(&cli_cmd_set,
				       "\"%s\" cannot be set; expected weight=, priority=, limit=, "
				       "time=, kind= or deadline=",
				       word);
	json = keys[i].read(value + 1);
	if (!json)
		return cli_usage_error(&cli_cmd_set, "%s is \"%s\", expected %s", keys[i].name,
				       value + 1, keys[i].expected);
	(void)json_object_set_new(request, keys[i].key, json);
	return CLI_OK;
}

static int show_job(const json_t *reply, const void *unused)
{
	uint64_t limit = cli_json_count(reply, "limit_bytes");
	double total_s = cli_json_number(reply, "total_s");
	double deadline_s = cli_json_number(reply, "deadline_s");
	char bytes[SAL_UNITS_TEXT], time[SAL_UNITS_TEXT], deadline[SAL_UNITS_TEXT], line[400];

	(void)unused;
	(void)snprintf(line, sizeof(line),
		       "%.128s (id %.0f): weight %.4g, priority %.0f, limit %s, time %s, %s%s%s",
		       cli_json_text(reply, "name"), cli_json_number(reply, "id"),
		       cli_json_number(reply, "weight"), cli_json_number(reply, "priority"),
		       limit > 0 ? sal_bytes_format(limit, bytes, sizeof(bytes)) : "none",
		       total_s > 0
			       ? sal_duration_format(cli_seconds_to_ns(total_s), time, sizeof(time))
			       : "unknown",
		       cli_json_text(reply, "kind"), deadline_s > 0 ? ", deadline " : "",
		       deadline_s > 0 ? sal_duration_format(cli_seconds_to_ns(deadline_s), deadline,
							    sizeof(deadline))
				      : "");
	cli_print_text(line);
	return cli_flush();
}

static int run_set(int argc, char **argv)
{
	struct cli_words words;
	json_t *request;
	int i, rc = cli_parse_words(&cli_cmd_set, argc, argv, &words);

	if (rc == CLI_OK)
		rc = cli_expect_words(&cli_cmd_set, &words, 1, INT_MAX);
	if (rc == CLI_OK && words.count < 2)
		rc = cli_usage_error(&cli_cmd_set, "KEY=VALUE is missing, such as weight=2");
	if (rc != CLI_OK)
		return rc;
	request = json_pack("{s:s, s:s}", "op", "set", "job", words.at[0]);
	for (i = 1; i < words.count && rc == CLI_OK; i++)
		rc = add_wish(request, words.at[i]);
	if (rc != CLI_OK) {
		json_decref(request);
		return rc;
	}
	return cli_ask_and_show(request, words.json, show_job, NULL);
}

const struct cli_command cli_cmd_set = {
	.name = "set",
	.summary = "change a job's weight, priority, memory limit, time, kind or deadline",
	.usage =
		"JOB KEY=VALUE... [--json] [--socket PATH]\n"
		"\n"
		"JOB is an id or a name that `salus ps` shows, or the beginning of a name.\n"
		"\n"
		"  weight=W    share of the device under fair and rr; 1 is usual\n"
		"  priority=K  0 is first, under priority\n"
		"  limit=SIZE  device memory that it may hold, such as 4GiB; none: all there is\n"
		"  time=T      device time of the whole job; srtf uses it; unknown: salusd estimates\n"
		"  kind=KIND   training or inference; mix and deadline use it\n"
		"  deadline=T  each iteration must end so soon, such as 20ms; deadline uses it; none\n",
	.run = run_set,
};
