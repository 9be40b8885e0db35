/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits - how much of each resource a job, a user and all jobs together may use.
 *
 * The table in limits.c has one row for each resource: its name, its unit, its defaults. A limit is
 * named after its scope and its resource (`job-buffers`). `salusd --limit job-buffers=N` or a line
 * of the configuration file sets the limit. 0 means: no limit. ledger.h counts the use.
 *
 * Threads: the main thread sets the limits, before other threads start.
 */
#ifndef SAL_SERVICE_LIMITS_H
#define SAL_SERVICE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sal_err;

enum svc_resource {
	SVC_SESSIONS,
	SVC_STRANGERS, /* connections that have neither said hello nor asked a question */
	SVC_QUESTIONS, /* connections whose answer is not read yet */
	SVC_BUFFERS,
	SVC_PROGRAMS,
	SVC_QUEUED_ITERATIONS, /* submitted, not started */
	SVC_QUEUED_BYTES, /* salusd's memory for queued iterations */
	SVC_ARENA_BYTES,
	SVC_PAGED_BYTES,
	SVC_EXPOSED, /* blocks that jobs read in place: see client/session.h */
	SVC_HOST_BYTES, /* arrays in a memory of the host: see memory/host.h */
	SVC_COMPILES, /* programs that wait to be compiled or loaded */
	SVC_COMPILE_BYTES, /* size of these programs */
	SVC_RECORDS_PER_S, /* a rate; see svc_limit_pace */
	SVC_WEIGHT, /* compared, not counted; in thousandths, as in the hello */
	SVC_RESOURCES
};

enum svc_scope {
	SVC_JOB,
	SVC_USER,
	SVC_DAEMON,
	SVC_SCOPES
};

enum svc_unit {
	SVC_UNIT_COUNT,
	SVC_UNIT_BYTES,
	SVC_UNIT_PER_S,
	SVC_UNIT_MILLI /* thousandths; people write and read whole numbers */
};

/* Bytes for the name of a limit. */
#define SVC_LIMIT_NAME 40

/* 0: no limit. */
struct svc_limits {
	uint64_t max[SVC_SCOPES][SVC_RESOURCES];
};

/* Set the defaults for a machine with this much memory. */
void svc_limits_default(struct svc_limits *l, uint64_t machine_bytes);
/*
 * Set one limit by its name. The value is a number, a size, or "none". -SAL_NOT_FOUND: no limit has
 * this name. -SAL_INVALID_ARGUMENT: the value is invalid.
 */
int svc_limits_set(struct svc_limits *l, const char *name, const char *value, struct sal_err *err);
/* The same from "name=value". */
int svc_limits_set_pair(struct svc_limits *l, const char *pair, struct sal_err *err);

/* The columns of the table for this resource. */
const char *svc_limit_noun(enum svc_resource what);
const char *svc_limit_help(enum svc_resource what);
enum svc_unit svc_limit_unit(enum svc_resource what);
/* Does this scope limit the resource at all? */
bool svc_limit_applies(enum svc_scope scope, enum svc_resource what);
/* Write a name such as "job-buffers". Returns buf. */
const char *svc_limit_name(enum svc_scope scope, enum svc_resource what, char *buf, size_t size);

/* May a job have this weight, in thousandths? -SAL_INVALID_ARGUMENT if not. */
int svc_limit_check_weight(const struct svc_limits *l, uint64_t weight_milli, struct sal_err *err);

#endif
