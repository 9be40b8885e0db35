/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requests - requests that are not answered yet.
 *
 * The number of a request names its slot and which use of the slot it is. So a second answer, or an
 * answer to a dropped request, finds nobody.
 *
 * Threads: any. An answer function is called without the lock.
 */
#ifndef SAL_ADAPTOR_DAEMON_REQUESTS_H
#define SAL_ADAPTOR_DAEMON_REQUESTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An answer of the daemon; tail lives for the call. */
struct adp_answer {
	int code;
	const char *text; /* if code is not 0 */
	bool is_refused; /* an execution did not start */
	uint64_t value;
	const void *tail;
	size_t tail_size;
};

/* Called once, by the thread that takes the completion. It may send; it must not poll or wait. */
typedef void adp_answer_fn(void *ctx, const struct adp_answer *answer);

struct adp_request;

struct adp_requests {
	pthread_mutex_t lock;
	struct adp_request *at; /* owned */
	uint32_t room, first_free; /* 1 + index; 0: none */
	_Atomic int32_t owed; /* answers that have not come yet */
	_Atomic uint64_t asked; /* requests so far */
};

void adp_requests_init(struct adp_requests *r);
void adp_requests_fini(struct adp_requests *r);

/* The number of the new request; 0 for lack of memory. */
uint64_t adp_requests_add(struct adp_requests *r, adp_answer_fn *fn, void *ctx);
/* False if there is no such request, or it is answered already. */
bool adp_requests_drop(struct adp_requests *r, uint64_t number);
void adp_requests_answer(struct adp_requests *r, uint64_t number, const struct adp_answer *answer);
/* The same answer for every request. */
void adp_requests_answer_all(struct adp_requests *r, const struct adp_answer *answer);

#endif
