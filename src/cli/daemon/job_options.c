/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon/job_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "wire/messages.h"

static int take_name(struct cli_job_options *o, const struct cli_command *command, const char *text)
{
	const char *c;

	if (!*text || strlen(text) >= SAL_NAME_BYTES)
		return cli_usage_error(command, "--name has %zu bytes, expected 1 to %d",
				       strlen(text), SAL_NAME_BYTES - 1);
	for (c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == '\x7f')
			return cli_usage_error(command, "--name has a control character");
	o->env.name = text;
	return CLI_OK;
}

/* "P,E", two sizes. */
static int take_reserve(struct cli_job_options *o, const struct cli_command *command,
			const char *text)
{
	const char *comma = strchr(text, ',');
	uint64_t persist_bytes, ephem_bytes;
	struct sal_err err = { 0 };
	char first[64];

	if (!comma || comma - text >= (ptrdiff_t)sizeof(first))
		return cli_usage_error(command,
				       "--reserve is \"%s\", expected persistent,ephemeral such as "
				       "2GiB,512MiB",
				       text);
	memcpy(first, text, (size_t)(comma - text));
	first[comma - text] = '\0';
	if (sal_bytes_parse(first, &persist_bytes, &err) < 0 ||
	    sal_bytes_parse(comma + 1, &ephem_bytes, &err) < 0)
		return cli_usage_error(command, "--reserve: %s", err.text);
	(void)snprintf(o->reserve, sizeof(o->reserve), "%" PRIu64 "B,%" PRIu64 "B", persist_bytes,
		       ephem_bytes);
	o->env.reserve = o->reserve;
	return CLI_OK;
}

/* A decimal number within bounds, without sign, exponent or blank. */
static bool is_number(const char *text, const char *allowed, double least, double most)
{
	char *end;
	double value = strtod(text, &end);

	return *text && text[strspn(text, allowed)] == '\0' && *end == '\0' && value >= least &&
	       value <= most;
}

static int take_weight(struct cli_job_options *o, const struct cli_command *command,
		       const char *text)
{
	if (!is_number(text, "0123456789.", 0.001, 1e6))
		return cli_usage_error(command, "--weight is \"%s\", expected 0.001 to 1000000",
				       text);
	o->env.weight = text;
	return CLI_OK;
}

static int take_priority(struct cli_job_options *o, const struct cli_command *command,
			 const char *text)
{
	if (!is_number(text, "0123456789", 0, 1e6))
		return cli_usage_error(
			command,
			"--priority is \"%s\", expected a whole number from 0 (first) "
			"to 1000000",
			text);
	o->env.priority = text;
	return CLI_OK;
}

/* A time above 0. */
static int take_duration(const struct cli_command *command, const char *option, const char *text,
			 const char **out_text)
{
	struct sal_err err = { 0 };
	uint64_t ns;

	if (sal_duration_parse(text, &ns, &err) < 0)
		return cli_usage_error(command, "%s: %s", option, err.text);
	if (ns == 0)
		return cli_usage_error(command, "%s: 0 is no time; leave it out", option);
	*out_text = text;
	return CLI_OK;
}

static int take_kind(struct cli_job_options *o, const struct cli_command *command, const char *text)
{
	if (strcmp(text, "training") != 0 && strcmp(text, "inference") != 0)
		return cli_usage_error(command, "--kind is \"%s\", expected training or inference",
				       text);
	o->env.kind = text;
	return CLI_OK;
}

static int take_devices(struct cli_job_options *o, const struct cli_command *command,
			const char *text)
{
	if (!is_number(text, "0123456789", 1, SAL_DEVICES_MAX))
		return cli_usage_error(command, "--devices is \"%s\", expected 1 to %d", text,
				       SAL_DEVICES_MAX);
	o->env.devices = text;
	return CLI_OK;
}

int cli_job_options_take(struct cli_job_options *options, const struct cli_command *command,
			 int option, const char *text)
{
	switch (option) {
	case CLI_JOB_NAME:
		return take_name(options, command, text);
	case CLI_JOB_RESERVE:
		return take_reserve(options, command, text);
	case CLI_JOB_WEIGHT:
		return take_weight(options, command, text);
	case CLI_JOB_PRIORITY:
		return take_priority(options, command, text);
	case CLI_JOB_TIME:
		return take_duration(command, "--time", text, &options->env.time);
	case CLI_JOB_DEADLINE:
		return take_duration(command, "--deadline", text, &options->env.deadline);
	case CLI_JOB_DEVICES:
		return take_devices(options, command, text);
	case CLI_JOB_KIND:
		return take_kind(options, command, text);
	default:
		return -1;
	}
}
