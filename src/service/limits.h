/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits - how much of each resource a job, a user and all jobs together may have.
 *
 * The table in limits.c has one row for each resource: its name, its unit, its defaults. A limit is named after
 * its scope and its resource (`job-buffers`), and set by `salusd --limit job-buffers=N` or by a line of the
 * configuration file. 0 means: no limit.
 *
 * An account counts what one session, or one connection before its hello, has. Each belongs to a user, found by
 * uid; users belong to the ledger of the server, which also counts for all. Invariant, for every resource:
 *
 *     used by a user = sum over the accounts of that user;    used by all = sum over the users
 *
 * Taking charges account, user and daemon, or none of them. Nothing is allocated but when a user's first account
 * is opened.
 *
 * Owns: the users. Threads: any, with or without server->lock: the ledger has a lock of its own, under which
 * nothing else is locked or called.
 */
#ifndef SAL_SERVICE_LIMITS_H
#define SAL_SERVICE_LIMITS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct sal_err;
struct svc_session;

enum svc_resource {
	SVC_SESSIONS,
	SVC_STRANGERS, /* connections that have not said hello, and asked nothing */
	SVC_QUESTIONS, /* connections whose answer is not read yet */
	SVC_BUFFERS,
	SVC_PROGRAMS,
	SVC_QUEUED_ITERATIONS, /* submitted, not started */
	SVC_QUEUED_BYTES, /* of records and arguments that salusd keeps for them */
	SVC_ARENA_BYTES,
	SVC_PAGED_BYTES,
	SVC_COMPILES, /* programs that wait to be compiled or loaded */
	SVC_COMPILE_BYTES, /* of their texts */
	SVC_RECORDS_PER_S, /* see svc_limit_pace */
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
	SVC_UNIT_MILLI /* people write and read thousands of it */
};

/* Room for the name of a limit. */
#define SVC_LIMIT_NAME 40

/* --- the limits ---------------------------------------------------------------------------------------- */

/* 0: no limit. */
struct svc_limits {
	uint64_t most[SVC_SCOPES][SVC_RESOURCES];
};

/* The defaults, on a machine with so much memory. */
void svc_limits_default(struct svc_limits *l, uint64_t machine_bytes);
/*
 * One limit by its name; the value is a number or a size, or "none". -SAL_NOT_FOUND: there is no limit of that
 * name; -SAL_INVALID_ARGUMENT: the value cannot be.
 */
int svc_limits_set(struct svc_limits *l, const char *name, const char *value, struct sal_err *err);
/* The same from "name=value". */
int svc_limits_set_pair(struct svc_limits *l, const char *pair, struct sal_err *err);

/* What is known of a resource. */
const char *svc_limit_help(enum svc_resource what);
enum svc_unit svc_limit_unit(enum svc_resource what);
/* Is there a limit in that scope at all? */
bool svc_limit_applies(enum svc_scope scope, enum svc_resource what);
/* "job-buffers". Returns buf. */
const char *svc_limit_name(enum svc_scope scope, enum svc_resource what, char *buf, size_t size);

/* --- who has what --------------------------------------------------------------------------------------- */

/* A rate is kept by a bucket that fills as time passes. A new one is { 0 }, and full. */
struct svc_bucket {
	uint64_t filled_ns; /* when it was last filled */
	uint64_t left;
	uint64_t second_ns; /* when the second began in which `taken` counts */
	uint64_t taken, taken_before; /* in this second, and in the one before */
};

struct svc_user {
	LIST_ENTRY(svc_user) link; /* in ledger->users */
	uid_t uid;
	uint32_t refs; /* accounts */
	uint64_t used[SVC_RESOURCES];
	struct svc_bucket records;
};

struct svc_ledger {
	pthread_mutex_t lock; /* guards everything below, and all accounts */
	struct svc_limits limits;
	uint64_t used[SVC_RESOURCES];
	LIST_HEAD(, svc_user) users; /* owned */
};

struct svc_account {
	struct svc_ledger *ledger; /* borrowed; NULL: not open */
	struct svc_user *user; /* owned reference */
	uint64_t used[SVC_RESOURCES];
	struct svc_bucket records;
};

void svc_ledger_init(struct svc_ledger *ledger, const struct svc_limits *limits);
/* All accounts must be closed. */
void svc_ledger_fini(struct svc_ledger *ledger);

/* -SAL_RESOURCE_EXHAUSTED: no memory. */
int svc_account_open(struct svc_account *a, struct svc_ledger *ledger, uid_t uid,
		     struct sal_err *err);
/* Everything must have been given back. Does nothing to an account that is not open. */
void svc_account_close(struct svc_account *a);

/*
 * Take so much more, or -SAL_RESOURCE_EXHAUSTED and a sentence with the numbers, whose limit it is, and the
 * option's name. Nothing is taken then.
 */
int svc_account_take(struct svc_account *a, enum svc_resource what, uint64_t amount,
		     struct sal_err *err);
void svc_account_give(struct svc_account *a, enum svc_resource what, uint64_t amount);

/* --- sessions -------------------------------------------------------------------------------------------- */

/* The account of the session. */
int svc_limit_take(struct svc_session *s, enum svc_resource what, uint64_t amount,
		   struct sal_err *err);
void svc_limit_give(struct svc_session *s, enum svc_resource what, uint64_t amount);

/*
 * How many of `wanted` records may be read from the session now. They count as read. If not all: *out_wait_ns is
 * how long to wait before more may be.
 */
uint64_t svc_limit_pace(struct svc_session *s, uint64_t now_ns, uint64_t wanted,
			uint64_t *out_wait_ns);

/* May it have that weight, in thousandths? -SAL_INVALID_ARGUMENT and a sentence if not. */
int svc_limit_check_weight(const struct svc_limits *l, uint64_t weight_milli, struct sal_err *err);

/* --- for people ------------------------------------------------------------------------------------------ */

/* The use of one resource. */
struct svc_usage {
	uint64_t all; /* by everybody */
	uint64_t user; /* by the user that has most */
	uid_t uid; /* whose that is */
};

/* For a rate: what was read in the last whole second. */
void svc_ledger_usage(struct svc_ledger *ledger, enum svc_resource what, uint64_t now_ns,
		      struct svc_usage *out);
/* The same for all resources of one account; all 0 if it is not open. */
void svc_account_usage(struct svc_account *a, uint64_t now_ns, uint64_t out_used[SVC_RESOURCES]);

#endif
