/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefetch - requests small results before the job reads them.
 *
 * A training loop reads its loss. A request at that moment costs another record and wake-up of the
 * daemon, or a round trip if the loss is computed already. So each program has a habit: which of
 * its outputs were read lately. Their bytes are requested right behind the iteration and stored
 * here. A reader of the buffer gets them as if the daemon had just answered. An output that is no
 * longer read is soon no longer prefetched.
 *
 * A large result that is read in the daemon's memory (exposed.h) has such a habit, too: what is
 * prefetched is its place.
 *
 * Threads: any.
 */
#ifndef SAL_ADAPTOR_BUFFER_PREFETCH_H
#define SAL_ADAPTOR_BUFFER_PREFETCH_H

#include <stdbool.h>
#include <stddef.h>

#include "adaptor/daemon/requests.h"
#include "adaptor/function.h"
#include "base/facts.h"

struct adp_habit;

/*
 * NULL if the program has no outputs that may be prefetched, or for lack of memory: then nothing is
 * prefetched.
 */
struct adp_habit *adp_habit_create(const struct sal_program_facts *facts);
void adp_habit_unref(struct adp_habit *habit);

/* For output `index` of an iteration that is not sent yet; true if its bytes will be requested. */
bool adp_prefetch_plan(PJRT_Buffer *b, struct adp_habit *habit, size_t index);
/* Requests the bytes; the iteration is sent. `last`: wake the daemon. */
void adp_prefetch_send(PJRT_Buffer *b, bool last);
/*
 * Call this when the buffer is read. fn gets the daemon's answer, at once or later, with all bytes
 * as the tail. False if the buffer is not prefetched.
 */
bool adp_prefetch_take(PJRT_Buffer *b, adp_answer_fn *fn, void *ctx);
/*
 * The same for the place of a large buffer, a struct sal_exposed_place. Reading it makes a habit only
 * with adp_prefetch_learn.
 */
bool adp_prefetch_take_place(PJRT_Buffer *b, adp_answer_fn *fn, void *ctx);
/* The place was useful. */
void adp_prefetch_learn(PJRT_Buffer *b);
/* Call this before the buffer is freed. */
void adp_prefetch_drop(PJRT_Buffer *b);

#endif
