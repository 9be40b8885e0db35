/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger - how much of each limited resource everybody has.
 *
 * An account counts what one session, or one connection before its hello, has. Each belongs to a
 * user, found by uid. Users belong to the ledger of the server, which also counts for all.
 * Invariant, for every resource:
 *
 *     used by a user = sum over the accounts of that user;    used by all = sum over the users
 *
 * Taking charges account, user and daemon, or none of them. Memory is allocated only when a user's
 * first account is opened.
 *
 * Owns: the users. Threads: any, with or without server->lock: the ledger has a lock of its own,
 * under which nothing else is locked or called.
 */
#ifndef SAL_SERVICE_LEDGER_H
#define SAL_SERVICE_LEDGER_H

#include <pthread.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "service/limits.h"

struct svc_session;

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
 * Take so much more, or -SAL_RESOURCE_EXHAUSTED and a sentence with the numbers, whose limit it is,
 * and the option's name. Nothing is taken then.
 */
int svc_account_take(struct svc_account *a, enum svc_resource what, uint64_t amount,
		     struct sal_err *err);
void svc_account_give(struct svc_account *a, enum svc_resource what, uint64_t amount);

/* The account of the session. */
int svc_limit_take(struct svc_session *s, enum svc_resource what, uint64_t amount,
		   struct sal_err *err);
void svc_limit_give(struct svc_session *s, enum svc_resource what, uint64_t amount);

/*
 * How many of `wanted` records may be read from the session now. They count as read. If not all:
 * *out_wait_ns is how long to wait before more may be.
 */
uint64_t svc_limit_pace(struct svc_session *s, uint64_t now_ns, uint64_t wanted,
			uint64_t *out_wait_ns);

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
