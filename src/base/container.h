/* SPDX-License-Identifier: Apache-2.0 */
/* container - from a member to the struct that embeds it. */
#ifndef SAL_BASE_CONTAINER_H
#define SAL_BASE_CONTAINER_H

#include <stddef.h>

/* The struct of that type whose `member` is at `pointer`. */
#define SAL_CONTAINER_OF(pointer, type, member) \
	((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
