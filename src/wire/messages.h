/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages - all messages between a client and the daemon. docs/PROTOCOL.md describes them.
 *
 * Everything is little-endian with natural alignment and no hidden padding; the headers assert the
 * sizes, a golden-bytes test pins them. A record in a ring is a header, a body of its type and a
 * tail of variable length. Records are multiples of eight bytes.
 *
 * Ids of buffers, programs and requests are the client's to choose. Places in the arena are checked
 * against what the daemon gave out. The peer is hostile until proven otherwise: copy, validate,
 * then use.
 */
#ifndef SAL_WIRE_MESSAGES_H
#define SAL_WIRE_MESSAGES_H

#include <stdbool.h>

#include "wire/complete.h"
#include "wire/greeting.h"
#include "wire/record.h"
#include "wire/submit.h"

/*
 * Checks our own copy of a record: its type exists in that direction, its size is exactly that of
 * its counts, no bound is exceeded. The tail begins behind the fixed part.
 */
bool sal_submit_is_valid(const struct sal_header *record);
bool sal_complete_is_valid(const struct sal_header *record);
bool sal_hello_is_valid(const struct sal_hello *hello);

#endif
