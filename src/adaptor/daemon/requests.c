/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/daemon/requests.h"

#include <stdlib.h>

struct adp_request {
	adp_answer_fn *fn; /* NULL: free */
	void *ctx;
	uint32_t generation;
	uint32_t next_free; /* 1 + index */
};

void adp_requests_init(struct adp_requests *r)
{
	*r = (struct adp_requests){ 0 };
	(void)pthread_mutex_init(&r->lock, NULL);
}

void adp_requests_fini(struct adp_requests *r)
{
	(void)pthread_mutex_destroy(&r->lock);
	free(r->at);
}

/* Doubles the table; the new slots are free. */
static void grow(struct adp_requests *r)
{
	uint32_t room = r->room ? r->room * 2 : 256, i;
	struct adp_request *more = realloc(r->at, room * sizeof(*more));

	if (!more)
		return;
	for (i = r->room; i < room; i++)
		more[i] = (struct adp_request){ .next_free = i + 1 < room ? i + 2 : 0 };
	r->first_free = r->room + 1;
	r->at = more;
	r->room = room;
}

static uint64_t number_of(const struct adp_request *request, uint32_t index)
{
	return (uint64_t)request->generation << 32 | (index + 1);
}

uint64_t adp_requests_add(struct adp_requests *r, adp_answer_fn *fn, void *ctx)
{
	uint64_t number = 0;

	(void)pthread_mutex_lock(&r->lock);
	if (r->first_free == 0)
		grow(r);
	if (r->first_free > 0) {
		uint32_t index = r->first_free - 1;
		struct adp_request *request = &r->at[index];

		request->generation++;
		r->first_free = request->next_free;
		request->fn = fn;
		request->ctx = ctx;
		number = number_of(request, index);
		(void)atomic_fetch_add_explicit(&r->owed, 1, memory_order_relaxed);
		(void)atomic_fetch_add_explicit(&r->asked, 1, memory_order_relaxed);
	}
	(void)pthread_mutex_unlock(&r->lock);
	return number;
}

/* Takes a request out of the table; false if it is not there. */
static bool take(struct adp_requests *r, uint64_t number, struct adp_request *out)
{
	uint32_t index = (uint32_t)number;
	bool found = false;

	(void)pthread_mutex_lock(&r->lock);
	if (index > 0 && index <= r->room) {
		struct adp_request *request = &r->at[index - 1];

		if (request->fn && request->generation == number >> 32) {
			*out = *request;
			request->fn = NULL;
			(void)atomic_fetch_sub_explicit(&r->owed, 1, memory_order_relaxed);
			request->next_free = r->first_free;
			r->first_free = index;
			found = true;
		}
	}
	(void)pthread_mutex_unlock(&r->lock);
	return found;
}

bool adp_requests_drop(struct adp_requests *r, uint64_t number)
{
	struct adp_request unused;

	return take(r, number, &unused);
}

void adp_requests_answer(struct adp_requests *r, uint64_t number, const struct adp_answer *answer)
{
	struct adp_request request;

	if (take(r, number, &request))
		request.fn(request.ctx, answer);
}

/*
 * The number of the request in slot i, 0 if the slot is free; *out_end if i is behind the last
 * slot.
 */
static uint64_t number_in(struct adp_requests *r, uint32_t i, bool *out_end)
{
	uint64_t number = 0;

	(void)pthread_mutex_lock(&r->lock);
	*out_end = i >= r->room;
	if (!*out_end && r->at[i].fn)
		number = number_of(&r->at[i], i);
	(void)pthread_mutex_unlock(&r->lock);
	return number;
}

void adp_requests_answer_all(struct adp_requests *r, const struct adp_answer *answer)
{
	bool end = false;
	uint32_t i;

	for (i = 0; !end; i++)
		adp_requests_answer(r, number_in(r, i, &end), answer);
}
