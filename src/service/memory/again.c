/* SPDX-License-Identifier: Apache-2.0 */
#include "service/memory/again.h"

#include <time.h>

#include "base/err.h"
#include "base/log/log.h"
#include "service/client/session.h"
#include "service/server.h"

#define PATIENCE_NS UINT64_C(1000000000)
#define NAP_MIN_NS UINT64_C(100000)
#define NAP_MAX_NS UINT64_C(10000000)
/* A session whose call was refused for good is not patient for so long. */
#define GIVEN_UP_NS UINT64_C(60000000000)

bool svc_again(struct svc_again *p, struct svc_session *s, int rc)
{
	uint64_t now_ns;

	if (rc != -SAL_RESOURCE_EXHAUSTED || !s->server->has_link)
		return false;
	now_ns = svc_now_ns();
	if (now_ns < atomic_load(&s->given_up_until_ns))
		return false;
	if (p->until_ns == 0) {
		*p = (struct svc_again){ now_ns + PATIENCE_NS, NAP_MIN_NS };
		sal_log_debug("memory", "the device has no memory yet");
	}
	if (now_ns >= p->until_ns) {
		atomic_store(&s->given_up_until_ns, now_ns + GIVEN_UP_NS);
		return false;
	}
	(void)nanosleep(&(struct timespec){ .tv_nsec = (long)p->nap_ns }, NULL);
	p->nap_ns = p->nap_ns < NAP_MAX_NS / 2 ? p->nap_ns * 2 : NAP_MAX_NS;
	return true;
}
