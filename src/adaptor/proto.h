/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto - writes a message in the format of protocol buffers, front to back.
 *
 * A message that ran out of memory is marked as failed, and takes no more fields: check `failed`
 * once, at the end. Threads: none.
 */
#ifndef SAL_ADAPTOR_PROTO_H
#define SAL_ADAPTOR_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: an empty message. */
struct adp_proto {
	char *at; /* owned */
	size_t size, room;
	bool failed;
};

/* Field numbers are less than 16. */
void adp_proto_number(struct adp_proto *p, int field, uint64_t value);
void adp_proto_bytes(struct adp_proto *p, int field, const void *bytes, size_t size);
void adp_proto_text(struct adp_proto *p, int field, const char *text);
/* Puts the child into p and frees the child. */
void adp_proto_message(struct adp_proto *p, int field, struct adp_proto *take_child);
/* Appends the fields of another message, and frees it. */
void adp_proto_append(struct adp_proto *p, struct adp_proto *take_fields);
void adp_proto_free(struct adp_proto *p);

#endif
