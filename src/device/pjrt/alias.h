/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alias - finds the parameters whose memory a program takes over for its outputs.
 *
 * PJRT has no call for this, but the optimised program contains it: a serialised
 * HloModuleProtoWithConfig. Only a few fields matter, so this module reads them itself. Protobuf
 * never changes their numbers:
 *
 *     HloModuleProtoWithConfig  1 hlo_module
 *     HloModuleProto            8 input_output_alias
 *     HloInputOutputAliasProto  1 entries
 *     AliasEntryProto           2 parameter_number (absent: 0)
 */
#ifndef SAL_DEVICE_PJRT_ALIAS_H
#define SAL_DEVICE_PJRT_ALIAS_H

#include "base/err.h"
#include "base/facts.h"

/*
 * Returns the parameters, ascending, each once. The caller owns *out_parameters; it is NULL if
 * there are none. Fails with -SAL_DATA_LOSS if the bytes are not such a program.
 */
int sal_alias_read(struct sal_text program, uint32_t **out_parameters, size_t *out_count,
		   struct sal_err *err);

#endif
