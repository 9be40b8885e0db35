/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena - the client's side of the shared memory for bulk data.
 *
 * The daemon makes the segments; the client decides which bytes are in use.
 *
 * Owns: the mappings. Threads: any; one lock.
 */
#ifndef SAL_ADAPTOR_DAEMON_ARENA_H
#define SAL_ADAPTOR_DAEMON_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/messages.h"

/* Bytes of the arena that are ours; `at` is where they are mapped. */
struct adp_range {
	struct sal_place_in_arena place;
	void *at;
};

struct adp_arena;
struct adp_arena *adp_arena_create(void);
void adp_arena_destroy(struct adp_arena *arena);
int adp_arena_add(struct adp_arena *arena, int take_fd, uint64_t bytes, struct sal_err *err);
/* False if the segments have no room. */
bool adp_arena_try(struct adp_arena *arena, uint64_t size, struct adp_range *out_range);
/* Ignores places that are not in use: the daemon cannot confuse us. */
void adp_arena_free(struct adp_arena *arena, const struct sal_place_in_arena *place);

#endif
