/* SPDX-License-Identifier: Apache-2.0 */
#include "service/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"
#include "service/client/session.h"

#define NS_PER_S UINT64_C(1000000000)
/* A full bucket holds the records of 1/BURST_PART of a second. */
#define BURST_PART 4

void svc_ledger_init(struct svc_ledger *ledger, const struct svc_limits *limits)
{
	memset(ledger, 0, sizeof(*ledger));
	ledger->limits = *limits;
	(void)pthread_mutex_init(&ledger->lock, NULL);
	LIST_INIT(&ledger->users);
}

void svc_ledger_fini(struct svc_ledger *ledger)
{
	SAL_ASSERT(LIST_EMPTY(&ledger->users));
	(void)pthread_mutex_destroy(&ledger->lock);
}

/* Under the ledger's lock. */
static struct svc_user *find_user(struct svc_ledger *ledger, uid_t uid)
{
	struct svc_user *user;

	LIST_FOREACH(user, &ledger->users, link)
		if (user->uid == uid)
			return user;
	user = calloc(1, sizeof(*user));
	if (user) {
		user->uid = uid;
		LIST_INSERT_HEAD(&ledger->users, user, link);
	}
	return user;
}

int svc_account_open(struct svc_account *a, struct svc_ledger *ledger, uid_t uid,
		     struct sal_err *err)
{
	memset(a, 0, sizeof(*a));
	(void)pthread_mutex_lock(&ledger->lock);
	a->user = find_user(ledger, uid);
	if (a->user) {
		a->user->refs++;
		a->ledger = ledger;
	}
	(void)pthread_mutex_unlock(&ledger->lock);
	return a->user ? SAL_OK : sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
}

/* The user's last account frees the user. Under the ledger's lock. */
static void drop_user(struct svc_user *user)
{
	int what;

	if (--user->refs > 0)
		return;
	for (what = 0; what < SVC_RESOURCES; what++)
		SAL_ASSERT(user->used[what] == 0);
	LIST_REMOVE(user, link);
	free(user);
}

void svc_account_close(struct svc_account *a)
{
	int what;

	if (!a->ledger)
		return;
	for (what = 0; what < SVC_RESOURCES; what++)
		if (a->used[what] != 0)
			SAL_BUG("%" PRIu64 " %s not given back", a->used[what],
				svc_limit_noun(what));
	(void)pthread_mutex_lock(&a->ledger->lock);
	drop_user(a->user);
	(void)pthread_mutex_unlock(&a->ledger->lock);
	a->ledger = NULL;
	a->user = NULL;
}

static bool is_counted(enum svc_resource what)
{
	return svc_limit_unit(what) == SVC_UNIT_COUNT || svc_limit_unit(what) == SVC_UNIT_BYTES;
}

static bool has_room(uint64_t max, uint64_t used, uint64_t amount)
{
	return amount <= (max ? max : INT64_MAX) && used <= (max ? max : INT64_MAX) - amount;
}

/* The counter that this account changes in this scope. */
static uint64_t *used_in(struct svc_account *a, enum svc_scope scope, enum svc_resource what)
{
	if (scope == SVC_JOB)
		return &a->used[what];
	return scope == SVC_USER ? &a->user->used[what] : &a->ledger->used[what];
}

static const char *format(enum svc_resource what, uint64_t value, char buf[SAL_UNITS_TEXT])
{
	if (svc_limit_unit(what) == SVC_UNIT_BYTES)
		return sal_bytes_format(value, buf, SAL_UNITS_TEXT);
	(void)snprintf(buf, SAL_UNITS_TEXT, "%" PRIu64, value);
	return buf;
}

struct refusal {
	enum svc_scope scope;
	uint64_t used, max;
};

static int refuse(const struct svc_account *a, const struct refusal *r, enum svc_resource what,
		  uint64_t amount, struct sal_err *err)
{
	char used[SAL_UNITS_TEXT], more[SAL_UNITS_TEXT], most[SAL_UNITS_TEXT];
	char name[SVC_LIMIT_NAME], who[40];

	if (r->scope == SVC_USER)
		(void)snprintf(who, sizeof(who), "user %u has", (unsigned)a->user->uid);
	else
		(void)snprintf(who, sizeof(who), "%s",
			       r->scope == SVC_JOB ? "this job has" : "all jobs together have");
	return sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
			   "%s %s %s, asked for %s more, and may have %s (salusd --limit %s=%s)",
			   who, format(what, r->used, used), svc_limit_noun(what),
			   format(what, amount, more), format(what, r->max, most),
			   svc_limit_name(r->scope, what, name, sizeof(name)),
			   svc_limit_unit(what) == SVC_UNIT_BYTES ? "SIZE" : "N");
}

/* Find the narrowest limit that forbids taking. False: none does. Under the ledger's lock. */
static bool find_refusal(struct svc_account *a, enum svc_resource what, uint64_t amount,
			 struct refusal *out)
{
	int scope;

	for (scope = 0; scope < SVC_SCOPES; scope++) {
		out->scope = (enum svc_scope)scope;
		out->used = *used_in(a, out->scope, what);
		out->max = a->ledger->limits.max[scope][what];
		if (!has_room(out->max, out->used, amount))
			return true;
	}
	return false;
}

int svc_account_take(struct svc_account *a, enum svc_resource what, uint64_t amount,
		     struct sal_err *err)
{
	struct refusal refusal;
	bool is_refused;
	int scope;

	SAL_ASSERT(a->ledger && is_counted(what));
	(void)pthread_mutex_lock(&a->ledger->lock);
	is_refused = find_refusal(a, what, amount, &refusal);
	for (scope = 0; !is_refused && scope < SVC_SCOPES; scope++)
		*used_in(a, (enum svc_scope)scope, what) += amount;
	(void)pthread_mutex_unlock(&a->ledger->lock);
	return is_refused ? refuse(a, &refusal, what, amount, err) : SAL_OK;
}

void svc_account_give(struct svc_account *a, enum svc_resource what, uint64_t amount)
{
	int scope;

	SAL_ASSERT(a->ledger && is_counted(what));
	(void)pthread_mutex_lock(&a->ledger->lock);
	for (scope = 0; scope < SVC_SCOPES; scope++) {
		uint64_t *used = used_in(a, (enum svc_scope)scope, what);

		SAL_ASSERT(*used >= amount);
		*used -= amount;
	}
	(void)pthread_mutex_unlock(&a->ledger->lock);
}

int svc_limit_take(struct svc_session *s, enum svc_resource what, uint64_t amount,
		   struct sal_err *err)
{
	return svc_account_take(&s->account, what, amount, err);
}

void svc_limit_give(struct svc_session *s, enum svc_resource what, uint64_t amount)
{
	svc_account_give(&s->account, what, amount);
}

/* A rate of 0 means: no limit. */
static void bucket_fill(struct svc_bucket *b, uint64_t per_s, uint64_t now_ns)
{
	uint64_t full = per_s / BURST_PART ? per_s / BURST_PART : 1;
	uint64_t passed_ns = now_ns - b->filled_ns;
	uint64_t more;

	if (now_ns - b->second_ns >= NS_PER_S) {
		b->taken_before = now_ns - b->second_ns < 2 * NS_PER_S ? b->taken : 0;
		b->taken = 0;
		b->second_ns = now_ns;
	}
	if (per_s == 0) {
		b->left = UINT64_MAX;
		return;
	}
	more = passed_ns >= NS_PER_S ? full : (uint64_t)((double)per_s * (double)passed_ns / 1e9);
	if (b->filled_ns != 0 && more == 0)
		return; /* the time since filled_ns counts next time */
	b->left = b->filled_ns == 0 || more >= full - b->left ? full : b->left + more;
	b->filled_ns = now_ns;
}

static void bucket_take(struct svc_bucket *b, uint64_t amount)
{
	b->left -= amount;
	b->taken += amount;
}

/* How long it takes until one more record may be read. */
static uint64_t bucket_wait_ns(const struct svc_bucket *b, uint64_t per_s)
{
	return b->left > 0 ? 0 : NS_PER_S / per_s + 1;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t svc_limit_pace(struct svc_session *s, uint64_t now_ns, uint64_t wanted,
			uint64_t *out_wait_ns)
{
	struct svc_account *a = &s->account;
	const uint64_t job_per_s = a->ledger->limits.max[SVC_JOB][SVC_RECORDS_PER_S];
	const uint64_t user_per_s = a->ledger->limits.max[SVC_USER][SVC_RECORDS_PER_S];
	uint64_t allowed, job_wait_ns, user_wait_ns;

	(void)pthread_mutex_lock(&a->ledger->lock);
	bucket_fill(&a->records, job_per_s, now_ns);
	bucket_fill(&a->user->records, user_per_s, now_ns);
	allowed = least(wanted, least(a->records.left, a->user->records.left));
	bucket_take(&a->records, allowed);
	bucket_take(&a->user->records, allowed);
	job_wait_ns = bucket_wait_ns(&a->records, job_per_s);
	user_wait_ns = bucket_wait_ns(&a->user->records, user_per_s);
	(void)pthread_mutex_unlock(&a->ledger->lock);
	if (out_wait_ns)
		*out_wait_ns = job_wait_ns > user_wait_ns ? job_wait_ns : user_wait_ns;
	return allowed;
}

/* How much was taken in the last whole second. */
static uint64_t bucket_usage(const struct svc_bucket *b, uint64_t now_ns)
{
	if (now_ns - b->second_ns >= 2 * NS_PER_S)
		return 0;
	return now_ns - b->second_ns >= NS_PER_S ? b->taken : b->taken_before;
}

void svc_ledger_usage(struct svc_ledger *ledger, enum svc_resource what, uint64_t now_ns,
		      struct svc_usage *out)
{
	const struct svc_user *user;

	memset(out, 0, sizeof(*out));
	(void)pthread_mutex_lock(&ledger->lock);
	LIST_FOREACH(user, &ledger->users, link) {
		uint64_t used = svc_limit_unit(what) == SVC_UNIT_PER_S
					? bucket_usage(&user->records, now_ns)
					: user->used[what];

		out->all += used;
		if (used > out->user) {
			out->user = used;
			out->uid = user->uid;
		}
	}
	(void)pthread_mutex_unlock(&ledger->lock);
}

void svc_account_usage(struct svc_account *a, uint64_t now_ns, uint64_t out_used[SVC_RESOURCES])
{
	int what;

	memset(out_used, 0, SVC_RESOURCES * sizeof(*out_used));
	if (!a->ledger)
		return;
	(void)pthread_mutex_lock(&a->ledger->lock);
	for (what = 0; what < SVC_RESOURCES; what++)
		out_used[what] = svc_limit_unit(what) == SVC_UNIT_PER_S
					 ? bucket_usage(&a->records, now_ns)
					 : a->used[what];
	(void)pthread_mutex_unlock(&a->ledger->lock);
}
