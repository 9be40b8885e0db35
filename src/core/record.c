/* SPDX-License-Identifier: Apache-2.0 */
#include "core/record.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const what_names[SAL_WHAT_END] = {
	[SAL_OPEN] = "open",
	[SAL_CLOSE] = "close",
	[SAL_DECLARE] = "declare",
	[SAL_NEED] = "need",
	[SAL_SUBMIT] = "submit",
	[SAL_DONE] = "done",
	[SAL_PAGED_OUT] = "paged_out",
	[SAL_PAGED_IN] = "paged_in",
	[SAL_TICK] = "tick",
	[SAL_SET_POLICY] = "set_policy",
	[SAL_SET_TUNING] = "set_tuning",
	[SAL_PAUSE] = "pause",
	[SAL_RESUME] = "resume",
	[SAL_PAGE_OUT_FAILED] = "page_out_failed",
	[SAL_PAGE_IN_FAILED] = "page_in_failed",
	[SAL_SET_PARAM] = "set_param",
	[SAL_ADMIT] = "admit",
	[SAL_GRANT] = "grant",
	[SAL_PAGE_OUT] = "page_out",
	[SAL_PAGE_IN] = "page_in",
	[SAL_MOVE] = "move",
	[SAL_REFUSE] = "refuse",
	[SAL_WAKE_AT] = "wake_at",
	[SAL_EJECT] = "eject",
};

static const char *const reason_names[SAL_REASON_END] = {
	[SAL_REASON_NONE] = "",
	[SAL_REFUSE_CAPACITY] = "larger than the device",
	[SAL_REFUSE_LIMIT] = "larger than the session's limit",
	[SAL_REFUSE_NO_PAGING] = "all sessions wait for memory and paging is off",
	[SAL_EJECT_PICK] = "picked a session that was not ready",
	[SAL_EJECT_PREFERS] = "preferred each of two sessions over the other",
	[SAL_REFUSE_PAGE_IN] = "its memory could not be brought back to the device",
	[SAL_REFUSE_PAGE_OUT] = "all sessions wait for memory and none could be paged out",
	[SAL_REFUSE_DEADLINE] = "the iteration takes longer than its deadline",
	[SAL_REFUSE_LOAD] = "the deadlines of all sessions need more than the whole device",
	[SAL_EJECT_SHUT] = "let no session into the empty device",
};

const char *sal_what_name(uint16_t what)
{
	return what < SAL_WHAT_END && what_names[what] ? what_names[what] : "unknown";
}

const char *sal_reason_name(uint16_t reason)
{
	return reason < SAL_REASON_END ? reason_names[reason] : "unknown";
}

int sal_record_format(const struct sal_record *r, char *text, size_t size)
{
	return snprintf(text, size,
			"%" PRIu64 " %s session=%" PRIu64 " iteration=%" PRIu64
			" lane=%d persist=%" PRIu64 " ephem=%" PRIu64 " grow=%" PRIu64
			" value=%" PRIu64 " reason=%u",
			r->now_ns, sal_what_name(r->what), r->session, r->iteration,
			r->lane == SAL_NO_LANE ? -1 : (int)r->lane, r->persist_bytes,
			r->ephem_bytes, r->grow_bytes, r->value, r->reason);
}
