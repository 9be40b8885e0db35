/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nap - how long a client need not hear that its iterations end, because it is far ahead.
 *
 * The device has the iterations that wait. The client hears of the ended ones when about half of the
 * waiting ones have run, which leaves it time to send more. Their programs have told how long that
 * takes at least. If few iterations wait, the client hears of each end at once.
 *
 * Threads: under server->lock.
 */
#ifndef SAL_SERVICE_NAP_H
#define SAL_SERVICE_NAP_H

#include <stdint.h>

struct sal_holding;

/*
 * So many iterations wait. They take so long together as far as it was known when they came; the one
 * that has just ended took last_ns. holding may be NULL: an old client.
 */
void svc_nap_publish(struct sal_holding *holding, uint32_t queued_count, uint64_t queued_ns,
		     uint64_t last_ns);

#endif
