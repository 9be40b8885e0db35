/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/store/seal.h"

#include <string.h>

#include <sodium.h>

#include "compile/store/image.h"
#include "wire/pack.h"

#define SEAL_MAGIC "SALIMAGE"
#define SEAL_MAGIC_BYTES 8
#define SEAL_VERSION 2

struct head {
	const uint8_t *key, *identity;
	uint64_t sizes[SAL_FRAME_PARTS];
};

void sal_seal_init(struct sal_seal *seal, const uint8_t secret[SAL_SEAL_SECRET_BYTES],
		   const uint8_t identity[SAL_IDENTITY_BYTES])
{
	memcpy(seal->secret, secret, sizeof(seal->secret));
	memcpy(seal->identity, identity, sizeof(seal->identity));
}

size_t sal_seal_bytes(const struct sal_image *image)
{
	return SAL_SEAL_HEAD_BYTES + sal_image_bytes(image) + SAL_SEAL_MAC_BYTES;
}

static void make_mac(const struct sal_seal *seal, struct sal_image *image,
		     const uint8_t head[SAL_SEAL_HEAD_BYTES], uint8_t mac[SAL_SEAL_MAC_BYTES])
{
	crypto_generichash_state state;

	(void)crypto_generichash_init(&state, seal->secret, sizeof(seal->secret),
				      SAL_SEAL_MAC_BYTES);
	(void)crypto_generichash_update(&state, head, SAL_SEAL_HEAD_BYTES);
	(void)crypto_generichash_update(&state, (const unsigned char *)sal_image_room(image),
					sal_image_bytes(image));
	(void)crypto_generichash_final(&state, mac, SAL_SEAL_MAC_BYTES);
	sodium_memzero(&state, sizeof(state));
}

void sal_seal_make(const struct sal_seal *seal, struct sal_image *image,
		   uint8_t head[SAL_SEAL_HEAD_BYTES], uint8_t mac[SAL_SEAL_MAC_BYTES])
{
	struct sal_pack p;

	sal_pack_init(&p, head, SAL_SEAL_HEAD_BYTES);
	sal_pack_bytes(&p, SEAL_MAGIC, SEAL_MAGIC_BYTES);
	sal_pack_u32(&p, SEAL_VERSION);
	sal_pack_u32(&p, 0);
	sal_pack_bytes(&p, image->key, sizeof(image->key));
	sal_pack_bytes(&p, seal->identity, sizeof(seal->identity));
	sal_pack_u64(&p, image->facts.size);
	sal_pack_u64(&p, image->image.size);
	sal_pack_u64(&p, image->optimized.size);
	SAL_ASSERT(!p.failed && p.used == SAL_SEAL_HEAD_BYTES);
	make_mac(seal, image, head, mac);
}

static int read_head(const uint8_t bytes[SAL_SEAL_HEAD_BYTES], struct head *out_head)
{
	struct sal_unpack u;
	const void *magic;
	uint32_t version;

	sal_unpack_init(&u, bytes, SAL_SEAL_HEAD_BYTES);
	magic = sal_unpack_bytes(&u, SEAL_MAGIC_BYTES);
	version = sal_unpack_u32(&u);
	(void)sal_unpack_u32(&u);
	out_head->key = sal_unpack_bytes(&u, SAL_PROGRAM_KEY_BYTES);
	out_head->identity = sal_unpack_bytes(&u, SAL_IDENTITY_BYTES);
	for (int i = 0; i < SAL_FRAME_PARTS; i++)
		out_head->sizes[i] = sal_unpack_u64(&u);
	if (u.failed || memcmp(magic, SEAL_MAGIC, SEAL_MAGIC_BYTES) != 0 || version != SEAL_VERSION)
		return -SAL_DATA_LOSS;
	return SAL_OK;
}

int sal_seal_begin(const uint8_t head[SAL_SEAL_HEAD_BYTES], uint64_t total_bytes,
		   struct sal_image **out_image, struct sal_err *err)
{
	struct head h;
	uint64_t bytes;

	*out_image = NULL;
	if (read_head(head, &h) < 0)
		return sal_err_set(err, SAL_DATA_LOSS, "these bytes are not a sealed program");
	bytes = sal_frame_bytes(h.sizes);
	if (bytes == UINT64_MAX || total_bytes != SAL_SEAL_HEAD_BYTES + bytes + SAL_SEAL_MAC_BYTES)
		return sal_err_set(err, SAL_DATA_LOSS,
				   "the sealed program has a wrong size: %llu bytes",
				   (unsigned long long)total_bytes);
	*out_image = sal_image_create(h.sizes);
	if (!*out_image)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
				   "no memory for a program of %llu bytes",
				   (unsigned long long)bytes);
	memcpy((*out_image)->key, h.key, SAL_PROGRAM_KEY_BYTES);
	return SAL_OK;
}

int sal_seal_check(const struct sal_seal *seal, struct sal_image *image,
		   const uint8_t head[SAL_SEAL_HEAD_BYTES], const uint8_t mac[SAL_SEAL_MAC_BYTES],
		   struct sal_err *err)
{
	uint8_t expected[SAL_SEAL_MAC_BYTES];
	struct head h;

	make_mac(seal, image, head, expected);
	if (sodium_memcmp(expected, mac, sizeof(expected)) != 0)
		return sal_err_set(err, SAL_PERMISSION_DENIED,
				   "the sealed program is damaged, or was not made by a salusd of "
				   "this user");
	if (read_head(head, &h) < 0 ||
	    memcmp(h.identity, seal->identity, sizeof(seal->identity)) != 0)
		return sal_err_set(err, SAL_FAILED_PRECONDITION,
				   "the sealed program was compiled by another version of the "
				   "device's plugin, or for another device; compile it again");
	return SAL_OK;
}
