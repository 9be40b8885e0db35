/* SPDX-License-Identifier: Apache-2.0 */
/* layouts - the order of dimensions in device memory, and PJRT's Layouts extension. */
#ifndef SAL_ADAPTOR_BUFFER_LAYOUTS_H
#define SAL_ADAPTOR_BUFFER_LAYOUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adaptor/function.h"
#include "base/facts.h"

/* Bits of an element that is smaller than a byte; 0: whole bytes. */
unsigned adp_sub_byte_bits(PJRT_Buffer_Type type);
/* Fills in the order of dimensions that a serialised layout names; false if it names none. */
bool adp_layout_parse(struct sal_text text, size_t rank, int64_t *out_minor_to_major);
extern PJRT_Extension_Base *const adp_extensions;

#endif
