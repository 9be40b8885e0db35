/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/store/key.h"

#include <stdbool.h>

#include <sodium.h>

#include "compile/proto.h"
#include "wire/pack.h"

/* Change this when the hashed layout changes. */
#define KEY_DOMAIN "salus program 3"

/* The length comes first, so that two different lists of texts never hash the same bytes. */
static void add(crypto_generichash_state *state, struct sal_text text)
{
	uint8_t size[8];
	struct sal_pack p;

	sal_pack_init(&p, size, sizeof(size));
	sal_pack_u64(&p, text.size);
	(void)crypto_generichash_update(state, size, sizeof(size));
	(void)crypto_generichash_update(state, (const unsigned char *)text.at, text.size);
}

static void add_number(crypto_generichash_state *state, uint32_t number)
{
	uint8_t bytes[4];
	struct sal_pack p;

	sal_pack_init(&p, bytes, sizeof(bytes));
	sal_pack_u32(&p, number);
	add(state, (struct sal_text){ (const char *)bytes, sizeof(bytes) });
}

/* Maps in CompileOptionsProto (level 0), its build options (1) and their debug options (2). */
static bool is_map(int level, uint32_t number)
{
	return (level == 0 && number == 7) || (level == 2 && (number == 357 || number == 500));
}

static bool is_message(int level, const struct sal_proto_field *f)
{
	return level < 2 && f->number == 3 && f->type == SAL_PROTO_BYTES;
}

/* Adds an entry of a map. The sum does not depend on the order of entries. */
static void add_entry(uint64_t sum[4], const struct sal_proto_field *f)
{
	uint64_t hash[4];
	int i;

	(void)crypto_generichash((unsigned char *)hash, sizeof(hash),
				 (const unsigned char *)f->whole.at, f->whole.size, NULL, 0);
	for (i = 0; i < 4; i++)
		sum[i] += hash[i];
}

/*
 * Adds options field by field. Entries of maps may come in any order, even from the same process
 * with the same options. All other fields count byte for byte.
 */
// NOLINTNEXTLINE(misc-no-recursion): three levels
static void add_options(crypto_generichash_state *state, struct sal_text rest, int level)
{
	struct sal_proto_field f;
	uint64_t sum[4] = { 0 };

	while (sal_proto_next(&rest, &f) > 0) {
		if (is_map(level, f.number)) {
			add_entry(sum, &f);
		} else if (is_message(level, &f)) {
			add(state, (struct sal_text){ "message", 7 });
			add_options(state, f.bytes, level + 1);
		} else {
			add(state, f.whole);
		}
	}
	add(state, rest); /* bytes that are no field */
	add(state, (struct sal_text){ (const char *)sum, sizeof(sum) });
}

void sal_program_key(const struct sal_compile_source *source,
		     const uint8_t identity[SAL_IDENTITY_BYTES],
		     uint8_t out_key[SAL_PROGRAM_KEY_BYTES])
{
	crypto_generichash_state state;

	(void)crypto_generichash_init(&state, NULL, 0, SAL_PROGRAM_KEY_BYTES);
	add(&state, (struct sal_text){ KEY_DOMAIN, sizeof(KEY_DOMAIN) - 1 });
	add(&state, source->format);
	add(&state, source->program);
	add_options(&state, source->options, 0);
	add(&state, (struct sal_text){ (const char *)identity, SAL_IDENTITY_BYTES });
	if (source->devices > 1)
		add_number(&state, source->devices);
	(void)crypto_generichash_final(&state, out_key, SAL_PROGRAM_KEY_BYTES);
}
