/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record - one event or decision of the engine, as plain data.
 *
 * The daemon and the simulator write the same records. So two schedules can be compared line by
 * line, and a daemon's trace can be replayed.
 */
#ifndef SAL_CORE_RECORD_H
#define SAL_CORE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAL_NO_LANE UINT16_MAX

enum sal_what {
	/* events: when emitted, the reported change has happened, its consequences have not */
	SAL_OPEN = 1,
	SAL_CLOSE,
	SAL_DECLARE,
	SAL_NEED,
	SAL_SUBMIT,
	SAL_DONE, /* value: device time in ns */
	SAL_PAGED_OUT,
	SAL_PAGED_IN,
	SAL_TICK,
	SAL_SET_POLICY, /* value: sal_policy_number of the policy; 0: from a file */
	SAL_SET_TUNING,
	SAL_PAUSE,
	SAL_RESUME,
	SAL_PAGE_OUT_FAILED, /* all bytes of the session are on the device, as before */
	SAL_PAGE_IN_FAILED, /* all bytes of the session are in host memory, as before */
	SAL_SET_PARAM, /* iteration: index of the policy's parameter; value: its new value */
	/* decisions */
	SAL_ADMIT, /* the session holds persist_bytes, its lane offers ephem_bytes */
	SAL_GRANT, /* the iteration starts now, in the lane; value: its tier (policy.h) */
	SAL_PAGE_OUT, /* copy `value` bytes to the host, then report paged_out or page_out_failed */
	SAL_PAGE_IN, /* copy `value` bytes to the device, then report paged_in or page_in_failed */
	SAL_MOVE, /* the session now lives in the lane */
	SAL_REFUSE, /* persist_bytes + ephem_bytes are not available; value: the most possible;
		     * or the reason is a deadline */
	SAL_WAKE_AT, /* call tick at time `value`; replaces the last SAL_WAKE_AT */
	SAL_EJECT, /* the policy misbehaved; fifo replaces it */
	SAL_WHAT_END
};

enum sal_reason {
	SAL_REASON_NONE,
	SAL_REFUSE_CAPACITY, /* larger than the device */
	SAL_REFUSE_LIMIT, /* larger than the session's own limit */
	SAL_REFUSE_NO_PAGING, /* every session waits for memory and paging is off */
	SAL_EJECT_PICK, /* picked a session that was not ready */
	SAL_EJECT_PREFERS, /* preferred a over b and b over a */
	/* traces contain these numbers: add new reasons at the end */
	SAL_REFUSE_PAGE_IN, /* its page-in failed several times */
	SAL_REFUSE_PAGE_OUT, /* every session waits for memory and no page-out succeeds */
	SAL_REFUSE_DEADLINE, /* the iteration takes longer than its deadline; value: its time */
	SAL_REFUSE_LOAD, /* too many deadlines; value: load of the device in millionths */
	SAL_EJECT_SHUT, /* let no session into the empty device */
	SAL_REASON_END
};

struct sal_record {
	uint64_t now_ns;
	uint64_t session; /* 0: none */
	uint64_t iteration;
	uint64_t persist_bytes;
	uint64_t ephem_bytes;
	uint64_t grow_bytes; /* of the iteration */
	uint64_t value;
	uint16_t what; /* enum sal_what */
	uint16_t lane; /* SAL_NO_LANE: none */
	uint16_t reason; /* enum sal_reason */
};

static inline bool sal_record_is_decision(const struct sal_record *r)
{
	return r->what >= SAL_ADMIT;
}

const char *sal_what_name(uint16_t what);
const char *sal_reason_name(uint16_t reason);

/* Writes one line without newline. Returns the full length, as snprintf does. */
int sal_record_format(const struct sal_record *r, char *text, size_t size);

#endif
