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
	case SAL_MSG_OPERANDS:
		return sizeof(struct sal_msg_operands);
	case SAL_MSG_ANSWER:
		return sizeof(struct sal_msg_answer);
	case SAL_MSG_EXPOSE:
		return sizeof(struct sal_msg_expose);
	case SAL_MSG_REPLY:
		return sizeof(struct sal_msg_reply);
	case SAL_MSG_DONE:
	case SAL_MSG_REFUSED:
		return sizeof(struct sal_msg_done);
	case SAL_MSG_RELEASED:
		return sizeof(struct sal_msg_released);
	case SAL_MSG_CALL:
		return sizeof(struct sal_msg_call);
	case SAL_MSG_WITHDRAWN:
		return sizeof(struct sal_msg_withdrawn);
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

/* For records that name a device. In others these bits mean nothing. */
static bool has_device(const struct sal_header *h)
{
	return h->device < SAL_DEVICES_MAX;
}

static bool upload_is_valid(const struct sal_msg_upload *m)
{
	uint64_t dims = (uint64_t)m->rank * sizeof(int64_t);

	if (m->rank > SAL_RANK_MAX || !has_device(&m->header))
		return false;
	if (m->from.size > 0)
		return m->from.size == m->size && has_tail(&m->header, dims);
	return m->size <= SAL_INLINE_MAX && has_tail(&m->header, dims + m->size);
}

static bool execute_is_valid(const struct sal_msg_execute *m)
{
	uint64_t lists = m->header.devices > 1 ? m->header.devices : 1;

	if (!has_device(&m->header) || lists > SAL_DEVICES_MAX ||
	    lists * m->arg_count > SAL_ARGS_MAX || lists * m->output_count > SAL_ARGS_MAX ||
	    m->retained_count > m->arg_count)
		return false;
	return has_tail(&m->header, lists * m->arg_count * sizeof(uint64_t) +
					    (uint64_t)m->retained_count * sizeof(uint32_t));
}

static bool download_is_valid(const struct sal_msg_download *m)
{
	if (m->into.size > 0)
		return m->into.size == m->size && has_tail(&m->header, 0);
	return m->size <= SAL_INLINE_MAX && has_tail(&m->header, 0);
}

static bool answer_is_valid(const struct sal_msg_answer *m)
{
	if (m->code != 0)
		return m->results.size == 0 && m->tail_size <= SAL_TEXT_MAX &&
		       has_tail(&m->header, m->tail_size);
	if (m->results.size > 0)
		return m->tail_size == 0 && has_tail(&m->header, 0);
	return m->tail_size <= SAL_INLINE_MAX && has_tail(&m->header, m->tail_size);
}

/* Walks over shapes that end before `end`. NULL: one of them is impossible. */
static const struct sal_call_shape *walk_shapes(const struct sal_call_shape *at, uint32_t count,
						const char *end, uint64_t *out_bytes)
{
	*out_bytes = 0;
	for (uint32_t i = 0; i < count; i++) {
		size_t left = (size_t)(end - (const char *)at);

		if (left < sizeof(*at) || at->rank > SAL_RANK_MAX ||
		    at->bytes > SAL_CALL_BYTES_MAX ||
		    left - sizeof(*at) < at->rank * sizeof(int64_t))
			return NULL;
		*out_bytes += sal_call_span(at->bytes);
		at = sal_call_next(at);
	}
	return at;
}

static bool call_is_valid(const struct sal_msg_call *m)
{
	const char *end = (const char *)m + m->header.size;
	const struct sal_call_shape *at = (const struct sal_call_shape *)(m + 1);
	uint64_t operands, results;

	if (m->operand_count > SAL_CALL_ARRAYS_MAX || m->result_count > SAL_CALL_ARRAYS_MAX)
		return false;
	at = walk_shapes(at, m->operand_count, end, &operands);
	if (at)
		at = walk_shapes(at, m->result_count, end, &results);
	if (!at || operands != m->operand_bytes || results != m->result_bytes)
		return false;
	return (uint64_t)(end - (const char *)at) == (operands > SAL_INLINE_MAX ? 0 : operands);
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
	case SAL_MSG_ANSWER:
		return answer_is_valid((const struct sal_msg_answer *)h);
	case SAL_MSG_COPY:
		return has_tail(h, 0) && has_device(h);
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
	case SAL_MSG_CALL:
		return call_is_valid((const struct sal_msg_call *)h);
	default:
		return has_tail(h, 0);
	}
}

bool sal_hello_is_valid(const struct sal_hello *hello)
{
	return hello->magic == SAL_WIRE_MAGIC && hello->size >= SAL_HELLO_BYTES_MIN &&
	       ends_in_nul(hello->name, sizeof(hello->name));
}
