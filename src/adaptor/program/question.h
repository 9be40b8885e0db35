/* SPDX-License-Identifier: Apache-2.0 */
/*
 * question - a request whose answer the caller waits for: compile, load, fetch.
 *
 *     m = adp_question_begin(conn, SAL_MSG_LOAD, sizeof(*m), &q, &error);
 *     m->request = adp_question_request(q); ...
 *     error = adp_question_ask(q, &value);
 */
#ifndef SAL_ADAPTOR_PROGRAM_QUESTION_H
#define SAL_ADAPTOR_PROGRAM_QUESTION_H

#include <stdint.h>

#include "adaptor/function.h"

struct adp_conn;
struct adp_question;

/*
 * A record to fill in; the submission ring is the caller's until adp_question_ask. NULL: *out_error
 * says why.
 */
void *adp_question_begin(struct adp_conn *conn, uint16_t type, uint32_t size,
			 struct adp_question **out_question, PJRT_Error **out_error);
/* The number for the record's request. */
uint64_t adp_question_request(const struct adp_question *q);
/* Sends the record, waits for the answer and frees the question. out_value may be NULL. */
PJRT_Error *adp_question_ask(struct adp_question *take_question, uint64_t *out_value);

#endif
