/* SPDX-License-Identifier: Apache-2.0 */
/* range - bytes of a connection's arena, which grows when it is full. */
#ifndef SAL_ADAPTOR_DAEMON_RANGE_H
#define SAL_ADAPTOR_DAEMON_RANGE_H

#include <stddef.h>
#include <stdint.h>

#include "adaptor/daemon/arena.h"
#include "base/err.h"

struct adp_conn;

/* Asks the daemon for another segment if there is no room. */
int adp_range_alloc(struct adp_conn *conn, uint64_t size, struct adp_range *out_range,
		    struct sal_err *err);
/* Does nothing if range->at is NULL. */
void adp_range_free(struct adp_conn *conn, const struct adp_range *range);

#endif
