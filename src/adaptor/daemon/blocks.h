/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks - memory of the daemon that this process reads in place: large results of its programs.
 *
 * A block has a number. It is mapped, for reading only, when a buffer in it is first read. It stays
 * mapped for later buffers, because the first access to each page of a new mapping costs more than
 * a copy. It is unmapped when the daemon has withdrawn it and no buffer uses it.
 *
 * Owns: the mappings. Threads: any; one lock.
 */
#ifndef SAL_ADAPTOR_DAEMON_BLOCKS_H
#define SAL_ADAPTOR_DAEMON_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/messages.h"

struct adp_blocks;
struct adp_conn;

struct adp_blocks *adp_blocks_create(void);
void adp_blocks_destroy(struct adp_blocks *blocks);

/* Does the daemon expose results? */
bool adp_blocks_can(const struct adp_conn *conn);
/*
 * Where the block is mapped. Asks the daemon for a block that is not mapped yet. NULL: the daemon
 * does not give it any more.
 */
void *adp_block_use(struct adp_conn *conn, const struct sal_exposed_place *place);
/* The end of one use. */
void adp_block_drop(struct adp_conn *conn, uint64_t number);
/* The daemon does not use the block any more. Ignores unknown numbers. */
void adp_block_withdraw(struct adp_blocks *blocks, uint64_t number);

#endif
