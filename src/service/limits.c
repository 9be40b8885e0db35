/* SPDX-License-Identifier: Apache-2.0 */
#include "service/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/nearest.h"
#include "base/units.h"

#define MIB(n) (UINT64_C(n) << 20)
#define GIB(n) (UINT64_C(n) << 30)

struct row {
	const char *name;
	const char *noun; /* follows the number in a sentence */
	const char *help;
	enum svc_unit unit;
	/*
	 * The defaults. 0: the scope does not limit this resource. With is_part, the default is the
	 * machine's memory divided by this number.
	 */
	uint64_t max[SVC_SCOPES];
	bool is_part;
};

static const struct row rows[SVC_RESOURCES] = {
	[SVC_SESSIONS] = {
		.name = "sessions",
		.noun = "sessions",
		.help = "jobs that are connected",
		.max = { 0, 256, 512 },
	},
	[SVC_STRANGERS] = {
		.name = "strangers",
		.noun = "silent connections",
		.help = "connections that have said nothing yet",
		.max = { 0, 48, 64 },
	},
	[SVC_QUESTIONS] = {
		.name = "questions",
		.noun = "unread answers",
		.help = "questions of `salus ps` and its kind whose answers are not read yet",
		.max = { 0, 96, 128 },
	},
	[SVC_BUFFERS] = {
		.name = "buffers",
		.noun = "buffers",
		.help = "arrays on the device, pending ones included",
		.max = { 100000, 400000, 800000 },
	},
	[SVC_PROGRAMS] = {
		.name = "programs",
		.noun = "programs",
		.help = "compiled programs",
		.max = { 4096, 16384, 32768 },
	},
	[SVC_QUEUED_ITERATIONS] = {
		.name = "queued-iterations",
		.noun = "queued iterations",
		.help = "iterations that have not started",
		.max = { 4096, 32768, 65536 },
	},
	[SVC_QUEUED_BYTES] = {
		.name = "queued-bytes",
		.noun = "of queued requests",
		.help = "memory of salusd for what has not started",
		.unit = SVC_UNIT_BYTES,
		.max = { MIB(256), GIB(1), GIB(2) },
	},
	[SVC_ARENA_BYTES] = {
		.name = "arena",
		.noun = "of shared memory for transfers",
		.help = "shared memory for transfers",
		.unit = SVC_UNIT_BYTES,
		.max = { 4, 2, 2 },
		.is_part = true,
	},
	[SVC_PAGED_BYTES] = {
		.name = "paged",
		.noun = "paged out to the host",
		.help = "memory of the host for what is paged out",
		.unit = SVC_UNIT_BYTES,
		.max = { 2, 2, 2 },
		.is_part = true,
	},
	[SVC_EXPOSED] = {
		.name = "exposed",
		.noun = "results read in place",
		.help = "large results that jobs read in salusd's memory; over it, they are copied",
		.max = { 64, 256, 512 },
	},
	[SVC_HOST_BYTES] = {
		.name = "host",
		.noun = "of arrays in the host's memory",
		.help = "arrays of the memory kinds pinned_host and unpinned_host",
		.unit = SVC_UNIT_BYTES,
		.max = { 4, 4, 4 },
		.is_part = true,
	},
	[SVC_COMPILES] = {
		.name = "compiles",
		.noun = "programs that wait to be compiled",
		.help = "programs that wait to be compiled or loaded",
		.max = { 64, 256, 512 },
	},
	[SVC_COMPILE_BYTES] = {
		.name = "compile-bytes",
		.noun = "of programs that wait to be compiled",
		.help = "size of the programs that wait to be compiled or loaded",
		.unit = SVC_UNIT_BYTES,
		.max = { MIB(512), GIB(1), GIB(2) },
	},
	[SVC_RECORDS_PER_S] = {
		.name = "records",
		.noun = "records a second",
		.help = "records read a second; over it, a job is read from later",
		.unit = SVC_UNIT_PER_S,
		.max = { 500000, 1000000, 0 },
	},
	[SVC_WEIGHT] = {
		.name = "weight",
		.noun = "of weight",
		.help = "weight that a job may ask for or be given",
		.unit = SVC_UNIT_MILLI,
		.max = { 1000000, 0, 0 },
	},
};

static const char *const scopes[SVC_SCOPES] = {
	[SVC_JOB] = "job",
	[SVC_USER] = "user",
	[SVC_DAEMON] = "daemon",
};

const char *svc_limit_noun(enum svc_resource what)
{
	return rows[what].noun;
}

const char *svc_limit_help(enum svc_resource what)
{
	return rows[what].help;
}

enum svc_unit svc_limit_unit(enum svc_resource what)
{
	return rows[what].unit;
}

bool svc_limit_applies(enum svc_scope scope, enum svc_resource what)
{
	return rows[what].max[scope] != 0;
}

const char *svc_limit_name(enum svc_scope scope, enum svc_resource what, char *buf, size_t size)
{
	(void)snprintf(buf, size, "%s-%s", scopes[scope], rows[what].name);
	return buf;
}

void svc_limits_default(struct svc_limits *l, uint64_t machine_bytes)
{
	int scope, what;

	for (scope = 0; scope < SVC_SCOPES; scope++) {
		for (what = 0; what < SVC_RESOURCES; what++) {
			uint64_t max = rows[what].max[scope];

			if (max && rows[what].is_part)
				max = machine_bytes / max;
			l->max[scope][what] = max;
		}
	}
}

static bool find_limit(const char *name, enum svc_scope *out_scope, enum svc_resource *out_what)
{
	char known[SVC_LIMIT_NAME];
	int scope, what;

	for (scope = 0; scope < SVC_SCOPES; scope++) {
		for (what = 0; what < SVC_RESOURCES; what++) {
			*out_scope = (enum svc_scope)scope;
			*out_what = (enum svc_resource)what;
			if (svc_limit_applies(*out_scope, *out_what) &&
			    strcmp(svc_limit_name(*out_scope, *out_what, known, sizeof(known)),
				   name) == 0)
				return true;
		}
	}
	return false;
}

static int refuse_name(const char *name, struct sal_err *err)
{
	char known[SVC_LIMIT_NAME];
	struct sal_nearest near = { .word = name };
	int scope, what;

	for (scope = 0; scope < SVC_SCOPES; scope++) {
		for (what = 0; what < SVC_RESOURCES; what++) {
			const enum svc_scope s = (enum svc_scope)scope;
			const enum svc_resource w = (enum svc_resource)what;

			if (svc_limit_applies(s, w))
				sal_nearest_offer(&near,
						  svc_limit_name(s, w, known, sizeof(known)));
		}
	}
	if (near.name[0])
		return sal_err_set(err, SAL_NOT_FOUND,
				   "there is no limit \"%.60s\"; did you mean %s?", name,
				   near.name);
	return sal_err_set(err, SAL_NOT_FOUND,
			   "there is no limit \"%.60s\"; `salus limits` lists them", name);
}

static int parse_number(const char *text, uint64_t *out, struct sal_err *err)
{
	char *end;

	*out = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && *out > 0 && *out <= INT64_MAX / 1000)
		return SAL_OK;
	*out = 0;
	return sal_err_set(err, SAL_INVALID_ARGUMENT,
			   "\"%.60s\" is no limit: expected a number from 1 on, or none", text);
}

static int parse_size(const char *text, uint64_t *out, struct sal_err *err)
{
	int rc = sal_bytes_parse(text, out, err);

	if (rc >= 0 && *out == 0)
		rc = sal_err_set(err, SAL_INVALID_ARGUMENT,
				 "\"%.60s\" is no limit: expected a size such as 512MiB, or none",
				 text);
	return rc;
}

int svc_limits_set(struct svc_limits *l, const char *name, const char *value, struct sal_err *err)
{
	enum svc_scope scope;
	enum svc_resource what;
	uint64_t max = 0;
	int rc = SAL_OK;

	if (!find_limit(name, &scope, &what))
		return refuse_name(name, err);
	if (strcmp(value, "none") != 0)
		rc = rows[what].unit == SVC_UNIT_BYTES ? parse_size(value, &max, err)
						       : parse_number(value, &max, err);
	if (rc < 0)
		return rc;
	l->max[scope][what] = rows[what].unit == SVC_UNIT_MILLI ? max * 1000 : max;
	return SAL_OK;
}

int svc_limits_set_pair(struct svc_limits *l, const char *pair, struct sal_err *err)
{
	const char *equals = strchr(pair, '=');
	char name[SVC_LIMIT_NAME];

	if (!equals || (size_t)(equals - pair) >= sizeof(name))
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "\"%.60s\" is no limit: expected NAME=VALUE, such as "
				   "job-buffers=200000",
				   pair);
	memcpy(name, pair, (size_t)(equals - pair));
	name[equals - pair] = '\0';
	return svc_limits_set(l, name, equals + 1, err);
}

int svc_limit_check_weight(const struct svc_limits *l, uint64_t weight_milli, struct sal_err *err)
{
	uint64_t max = l->max[SVC_JOB][SVC_WEIGHT];

	if (max == 0 || weight_milli <= max)
		return SAL_OK;
	return sal_err_set(err, SAL_INVALID_ARGUMENT,
			   "a weight of %" PRIu64 " is too much: a job may have %" PRIu64
			   " (salusd --limit job-weight=N)",
			   weight_milli / 1000, max / 1000);
}
