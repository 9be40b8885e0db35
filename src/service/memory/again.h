/* SPDX-License-Identifier: Apache-2.0 */
/*
 * again - a vendor that gives back memory late.
 *
 * When an iteration has ended or a buffer is freed, its memory counts as free. The vendor may need
 * it a little longer: its own threads let go of it. A call that comes first is then refused although
 * there is room. So ask again:
 *
 *     struct svc_again again = { 0 };
 *
 *     do
 *             rc = vendor->restore(...);
 *     while (svc_again(&again, session, rc));
 *
 * A call that is refused for a second is refused for good: the vendor has less memory than it said.
 * Then further calls of the session are not made again for a while, because the lane waits.
 *
 * Threads: any, without the lock. Sleeps. On the worker that is no harm: another thread takes over
 * its role (watch.h).
 */
#ifndef SAL_SERVICE_AGAIN_H
#define SAL_SERVICE_AGAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "service/lock.h"

struct svc_session;

/* Starts as { 0 }. */
struct svc_again {
	uint64_t until_ns, nap_ns;
};

/* A call returned rc. True: make the call again. Never on a host device: it does not refuse. */
bool svc_again(struct svc_again *p, struct svc_session *s, int rc) SVC_UNLOCKED;

#endif
