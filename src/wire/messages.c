/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/messages.h"

#include <string.h>

/* The fixed part of each type; 0: no such type. */
static size_t fixed_size(uint16_t type)
{
	switch (type) {
	case SAL_MSG_COMPILE:
		return sizeof(struct sal_msg_compile);
	case SAL_MSG_LOAD:
		return sizeof(struct sal_msg_load);
	case SAL_MSG_FETCH:
		return sizeof(struct sal_msg_fetch);
	case SAL_MSG_UNLOAD:
		return sizeof(struct sal_msg_unload);
	case SAL_MSG_UPLOAD:
		return sizeof(struct sal_msg_upload);
	case SAL_MSG_DOWNLOAD:
		return sizeof(struct sal_msg_download);
	case SAL_MSG_EXECUTE:
		return sizeof(struct sal_msg_execute);
	case SAL_MSG_DELETE:
		return sizeof(struct sal_msg_delete);
	case SAL_MSG_COPY:
		return sizeof(struct sal_msg_copy);
	case SAL_MSG_AWAIT:
		return sizeof(struct sal_msg_await);
	case SAL_MSG_REPLY:
		return sizeof(struct sal_msg_reply);
	case SAL_MSG_DONE:
	case SAL_MSG_REFUSED:
		return sizeof(struct sal_msg_done);
	case SAL_MSG_RELEASED:
		return sizeof(struct sal_msg_released);
	default:
		return 0;
	}
}

static bool has_tail(const struct sal_header *h, uint64_t tail)
{
	return tail <= SAL_RECORD_MAX && h->size == sal_record_size(fixed_size(h->type), tail);
}

static bool ends_in_nul(const char *text, size_t size)
{
	return memchr(text, 0, size) != NULL;
}

static bool upload_is_valid(const struct sal_msg_upload *m)
{
	uint64_t dims = (uint64_t)m->rank * sizeof(int64_t);

	if (m->rank > SAL_RANK_MAX)
		return false;
	if (m->from.size > 0)
		return m->from.size == m->size && has_tail(&m->header, dims);
	return m->size <= SAL_INLINE_MAX && has_tail(&m->header, dims + m->size);
}

static bool execute_is_valid(const struct sal_msg_execute *m)
{
	if (m->arg_count > SAL_ARGS_MAX || m->output_count > SAL_ARGS_MAX ||
	    m->retained_count > m->arg_count)
		return false;
	return has_tail(&m->header, (uint64_t)m->arg_count * sizeof(uint64_t) +
					    (uint64_t)m->retained_count * sizeof(uint32_t));
}

static bool download_is_valid(const struct sal_msg_download *m)
{
	if (m->into.size > 0)
		return m->into.size == m->size && has_tail(&m->header, 0);
	return m->size <= SAL_INLINE_MAX && has_tail(&m->header, 0);
}

bool sal_submit_is_valid(const struct sal_header *h)
{
	size_t fixed = fixed_size(h->type);

	if (fixed == 0 || h->type >= SAL_MSG_SUBMIT_END || h->size < fixed ||
	    h->size > SAL_RECORD_MAX)
		return false;
	switch (h->type) {
	case SAL_MSG_COMPILE:
		return has_tail(h, 0) &&
		       ends_in_nul(((const struct sal_msg_compile *)h)->format, 16);
	case SAL_MSG_FETCH:
		return has_tail(h, 0) && ((const struct sal_msg_fetch *)h)->what < SAL_FETCH_END;
	case SAL_MSG_UPLOAD:
		return upload_is_valid((const struct sal_msg_upload *)h);
	case SAL_MSG_DOWNLOAD:
		return download_is_valid((const struct sal_msg_download *)h);
	case SAL_MSG_EXECUTE:
		return execute_is_valid((const struct sal_msg_execute *)h);
	case SAL_MSG_DELETE:
		return has_tail(h, (uint64_t)((const struct sal_msg_delete *)h)->count * 8);
	default:
		return has_tail(h, 0);
	}
}

bool sal_complete_is_valid(const struct sal_header *h)
{
	size_t fixed = fixed_size(h->type);

	if (fixed == 0 || h->type < SAL_MSG_REPLY || h->size < fixed || h->size > SAL_RECORD_MAX)
		return false;
	switch (h->type) {
	case SAL_MSG_REPLY:
		return has_tail(h, ((const struct sal_msg_reply *)h)->text_size);
	case SAL_MSG_DONE:
		return has_tail(h, ((const struct sal_msg_done *)h)->tail_size);
	case SAL_MSG_REFUSED:
		return ((const struct sal_msg_done *)h)->code != 0 &&
		       has_tail(h, ((const struct sal_msg_done *)h)->tail_size);
	default:
		return has_tail(h, 0);
	}
}

bool sal_hello_is_valid(const struct sal_hello *hello)
{
	return hello->magic == SAL_WIRE_MAGIC && hello->size >= SAL_HELLO_BYTES_MIN &&
	       ends_in_nul(hello->name, sizeof(hello->name));
}
