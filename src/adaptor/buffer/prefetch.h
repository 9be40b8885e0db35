/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefetch - small results that a job reads each time are asked for before it does.
 *
 * A training loop reads its loss. Asked for when it is read, that is a record and a wake-up of the daemon beside the
 * iteration that computes it, or a round trip if it is computed already. So each program has a habit: which of its
 * outputs were read lately. Of those the bytes are asked for right behind the iteration, and wait here; who reads the
 * buffer gets them as if the daemon had just answered. An output that is no longer read is soon not asked for either.
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

/* NULL if the program has no small outputs, or for lack of memory: then nothing is prefetched. */
struct adp_habit *adp_habit_create(const struct sal_program_facts *facts);
void adp_habit_unref(struct adp_habit *habit);

/* Output number `index` of a program, in an iteration that is not sent yet; true if its bytes will be asked for. */
bool adp_prefetch_plan(PJRT_Buffer *b, struct adp_habit *habit, size_t index);
/* The iteration is sent: ask. `last`: wake the daemon. */
void adp_prefetch_send(PJRT_Buffer *b, bool last);
/*
 * Somebody reads it. fn gets what the daemon says, at once or later, with all its bytes as the tail. False if it was not
 * prefetched.
 */
bool adp_prefetch_take(PJRT_Buffer *b, adp_answer_fn *fn, void *ctx);
/* The buffer goes. */
void adp_prefetch_drop(PJRT_Buffer *b);

#endif
