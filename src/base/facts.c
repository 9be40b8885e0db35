/* SPDX-License-Identifier: Apache-2.0 */
#include "base/facts.h"

#include <string.h>

/*
 * Indexed by PJRT_Buffer_Type, as of PJRT 0.81. This layer does not include the vendor's header; a
 * test of the device layer compares the table with it.
 */
static const unsigned char type_bytes[] = {
	[1] = 1, /* PRED */
	[2] = 1, /* S8 */
	[3] = 2, /* S16 */
	[4] = 4, /* S32 */
	[5] = 8, /* S64 */
	[6] = 1, /* U8 */
	[7] = 2, /* U16 */
	[8] = 4, /* U32 */
	[9] = 8, /* U64 */
	[10] = 2, /* F16 */
	[11] = 4, /* F32 */
	[12] = 8, /* F64 */
	[13] = 2, /* BF16 */
	[14] = 8, /* C64 */
	[15] = 16, /* C128 */
	[16] = 1, /* F8E5M2 */
	[17] = 1, /* F8E4M3FN */
	[18] = 1, /* F8E4M3B11FNUZ */
	[19] = 1, /* F8E5M2FNUZ */
	[20] = 1, /* F8E4M3FNUZ */
	[21] = 1, /* S4 */
	[22] = 1, /* U4 */
	[23] = 0, /* TOKEN has no elements */
	[24] = 1, /* S2 */
	[25] = 1, /* U2 */
	[26] = 1, /* F8E4M3 */
	[27] = 1, /* F8E3M4 */
	[28] = 1, /* F8E8M0FNU */
	[29] = 1, /* F4E2M1FN */
};

size_t sal_type_bytes(int32_t type)
{
	if (type < 0 || (size_t)type >= sizeof(type_bytes))
		return 0;
	return type_bytes[type];
}

bool sal_kind_is_host(struct sal_text kind)
{
	static const char end[] = "_host";
	const size_t n = sizeof(end) - 1;

	return kind.size > n && memcmp(kind.at + kind.size - n, end, n) == 0;
}
