/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger - who uses how much of each limited resource.
 *
 * An account counts the use of one session, or of one connection before its hello. Each account
 * belongs to a user, found by uid. Users belong to the server's ledger, which also counts the use
 * of all users together. Invariant, for every resource:
 *
 *     used by a user = sum over the accounts of that user;    used by all = sum over the users
 *
 * Taking charges account, user and daemon, or none of them. Only opening a user's first account
 * allocates memory.
 *
 * Owns: the users. Threads: any, with or without server->lock. The ledger has its own lock. A
 * thread that holds this lock takes no other lock and calls no other module.
 */
#ifndef SAL_SERVICE_LEDGER_H
#define SAL_SERVICE_LEDGER_H

#include <pthread.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "service/limits.h"

struct svc_session;

/* A token bucket enforces a rate: it fills as time passes. A new bucket is { 0 }, and full. */
struct svc_bucket {
	uint64_t filled_ns; /* when it was last filled */
	uint64_t left;
	uint64_t second_ns; /* when the second of `taken` began */
	uint64_t taken, taken_before; /* in this second, and in the second before */
};

struct svc_user {
	LIST_ENTRY(svc_user) link; /* in ledger->users */
	uid_t uid;
	uint32_t refs; /* of accounts */
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

/* -SAL_RESOURCE_EXHAUSTED for lack of memory. */
int svc_account_open(struct svc_account *a, struct svc_ledger *ledger, uid_t uid,
		     struct sal_err *err);
/* Everything must have been given back. Does nothing to an account that is not open. */
void svc_account_close(struct svc_account *a);

/*
 * Take `amount` more of a resource. Beyond a limit this takes nothing and returns
 * -SAL_RESOURCE_EXHAUSTED; err then names the numbers, the owner of the limit, and the option.
 */
int svc_account_take(struct svc_account *a, enum svc_resource what, uint64_t amount,
		     struct sal_err *err);
void svc_account_give(struct svc_account *a, enum svc_resource what, uint64_t amount);

/* The same for the session's account. */
int svc_limit_take(struct svc_session *s, enum svc_resource what, uint64_t amount,
		   struct sal_err *err);
void svc_limit_give(struct svc_session *s, enum svc_resource what, uint64_t amount);

/*
 * Returns how many of `wanted` records may be read from the session now, and counts them as read.
 * If fewer than wanted, *out_wait_ns says how long to wait before the next one.
 */
uint64_t svc_limit_pace(struct svc_session *s, uint64_t now_ns, uint64_t wanted,
			uint64_t *out_wait_ns);

/* The use of one resource. */
struct svc_usage {
	uint64_t all; /* by everybody */
	uint64_t user; /* by the user who uses most */
	uid_t uid; /* of this user */
};

/* The use of a rate is the number of records read in the last whole second. */
void svc_ledger_usage(struct svc_ledger *ledger, enum svc_resource what, uint64_t now_ns,
		      struct svc_usage *out);
/* The same for all resources of one account; all 0 if the account is not open. */
void svc_account_usage(struct svc_account *a, uint64_t now_ns, uint64_t out_used[SVC_RESOURCES]);

#endif
