/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts - device and program facts as bytes.
 *
 * Reading trusts nothing: every count and length is checked against what is left before it is used.
 * Unpacked facts are one allocation, which points into the bytes.
 */
#ifndef SAL_WIRE_FACTS_H
#define SAL_WIRE_FACTS_H

#include "base/err.h"
#include "base/facts.h"

/* Returns an allocation with *out_size bytes, or NULL for lack of memory. */
void *sal_device_facts_pack(const struct sal_device_facts *facts, size_t *out_size);
void *sal_program_facts_pack(const struct sal_program_facts *facts, size_t *out_size);

/*
 * The facts point into bytes, which must stay; free the result with free(). Fails with
 * -SAL_DATA_LOSS for bytes that are not packed facts.
 */
int sal_device_facts_unpack(const void *bytes, size_t size, struct sal_device_facts **out_facts,
			    struct sal_err *err);
int sal_program_facts_unpack(const void *bytes, size_t size, struct sal_program_facts **out_facts,
			     struct sal_err *err);

#endif
