/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alias - which parameters a program takes over for its outputs.
 *
 * PJRT has no question for it, but the optimised program tells: a serialised HloModuleProtoWithConfig.
 * Only a handful of fields matter, so it is walked by hand. Their numbers, which protobuf keeps for ever:
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
 * The parameters, ascending, each once; an allocation of the caller's, NULL if there are none. Fails with
 * -SAL_DATA_LOSS for bytes that are no such program.
 */
int sal_alias_read(struct sal_text program, uint32_t **out_parameters, size_t *out_count,
		   struct sal_err *err);

#endif
