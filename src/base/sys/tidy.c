/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys/tidy.h"

#include <malloc.h>

#define WORTH_IT ((size_t)64 << 20)

void sal_tidy(void)
{
	if (mallinfo2().fordblks >= WORTH_IT)
		(void)malloc_trim(0);
}
