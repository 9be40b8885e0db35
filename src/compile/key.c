/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/key.h"

#include <sodium.h>

#include "wire/pack.h"

/* Changes when the layout of what is hashed does. */
#define KEY_DOMAIN "salus program 1"

/* Length first, so that no two lists of texts hash the same bytes. */
static void add(crypto_generichash_state *state, struct sal_text text)
{
	uint8_t size[8];
	struct sal_pack p;

	sal_pack_init(&p, size, sizeof(size));
	sal_pack_u64(&p, text.size);
	(void)crypto_generichash_update(state, size, sizeof(size));
	(void)crypto_generichash_update(state, (const unsigned char *)text.at, text.size);
}

void sal_program_key(const struct sal_compile_source *source, struct sal_text platform_version,
		     uint8_t out_key[SAL_PROGRAM_KEY_BYTES])
{
	crypto_generichash_state state;

	(void)crypto_generichash_init(&state, NULL, 0, SAL_PROGRAM_KEY_BYTES);
	add(&state, (struct sal_text){ KEY_DOMAIN, sizeof(KEY_DOMAIN) - 1 });
	add(&state, source->format);
	add(&state, source->program);
	add(&state, source->options);
	add(&state, platform_version);
	(void)crypto_generichash_final(&state, out_key, SAL_PROGRAM_KEY_BYTES);
}
