/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys/guard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

void sal_guard_memory(void)
{
	const struct rlimit none = { 0, 0 };
	const char *debug = getenv("SALUS_DEBUG_CORE");

	if (debug && strcmp(debug, "1") == 0)
		return;
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}
