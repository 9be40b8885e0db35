/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requests - what was asked and is not yet answered.
 *
 * A request's number says which slot it has and which use of the slot it is, so that an answer that comes twice,
 * or for something that was dropped, is answered to nobody.
 *
 * Threads: any. An answer function is called without the lock.
 */
#ifndef SAL_ADAPTOR_REQUESTS_H
#define SAL_ADAPTOR_REQUESTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "adaptor/adaptor.h"

struct adp_request;

struct adp_requests {
	pthread_mutex_t lock;
	struct adp_request *at; /* owned */
	uint32_t room, first_free; /* 1 + index; 0: none */
	_Atomic int32_t owed; /* answers that are yet to come */
};

void adp_requests_init(struct adp_requests *r);
void adp_requests_fini(struct adp_requests *r);

/* Its number; 0 for lack of memory. */
uint64_t adp_requests_add(struct adp_requests *r, adp_answer_fn *fn, void *ctx);
/* False if it was answered, or never was. */
bool adp_requests_drop(struct adp_requests *r, uint64_t number);
void adp_requests_answer(struct adp_requests *r, uint64_t number, const struct adp_answer *answer);
/* The same answer for all that there are. */
void adp_requests_answer_all(struct adp_requests *r, const struct adp_answer *answer);

#endif
