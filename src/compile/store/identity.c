/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/store/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "wire/pack.h"

/* Change this when the hashed layout changes. */
#define IDENTITY_DOMAIN "salus identity 1"
#define SAMPLE_BYTES 4096
#define SAMPLES 512
#define FAKE "fake"

static void add(crypto_generichash_state *state, const void *at, size_t size)
{
	uint8_t head[8];
	struct sal_pack p;

	sal_pack_init(&p, head, sizeof(head));
	sal_pack_u64(&p, size);
	(void)crypto_generichash_update(state, head, sizeof(head));
	(void)crypto_generichash_update(state, at, size);
}

static void add_number(crypto_generichash_state *state, uint64_t value)
{
	uint8_t bytes[8];
	struct sal_pack p;

	sal_pack_init(&p, bytes, sizeof(bytes));
	sal_pack_u64(&p, value);
	add(state, bytes, sizeof(bytes));
}

static bool read_at(int fd, void *to, size_t size, uint64_t offset)
{
	ssize_t got;

	do
		got = pread(fd, to, size, (off_t)offset);
	while (got < 0 && errno == EINTR);
	return got == (ssize_t)size;
}

/* Hashes a small file completely, a large one in samples from its first to its last byte. */
static bool add_contents(crypto_generichash_state *state, int fd, uint64_t size)
{
	uint64_t span = size > SAMPLE_BYTES ? size - SAMPLE_BYTES : 0;
	uint64_t count = span / SAMPLE_BYTES + (span % SAMPLE_BYTES != 0);
	uint8_t bytes[SAMPLE_BYTES];

	count = count < SAMPLES ? count : SAMPLES;
	for (uint64_t i = 0; i <= count; i++) {
		/* Two steps, because the product may overflow. */
		uint64_t offset = count ? span / count * i + span % count * i / count : 0;
		size_t part = size < sizeof(bytes) ? (size_t)size : sizeof(bytes);

		if (!read_at(fd, bytes, part, offset))
			return false;
		add(state, bytes, part);
	}
	return true;
}

static bool add_file(crypto_generichash_state *state, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	bool fine;

	if (fd < 0)
		return false;
	fine = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	if (fine) {
		add_number(state, (uint64_t)st.st_size);
		add_number(state, (uint64_t)st.st_mtim.tv_sec);
		add_number(state, (uint64_t)st.st_mtim.tv_nsec);
		fine = add_contents(state, fd, (uint64_t)st.st_size);
	}
	(void)close(fd);
	return fine;
}

void sal_identity_make(const struct sal_identity_source *source,
		       uint8_t out_identity[SAL_IDENTITY_BYTES])
{
	crypto_generichash_state state;
	uint8_t nonce[SAL_IDENTITY_BYTES];

	(void)crypto_generichash_init(&state, NULL, 0, SAL_IDENTITY_BYTES);
	add(&state, IDENTITY_DOMAIN, sizeof(IDENTITY_DOMAIN) - 1);
	add(&state, source->platform_version.at, source->platform_version.size);
	add(&state, source->device_kind.at, source->device_kind.size);
	add_number(&state, source->api_major);
	add_number(&state, source->api_minor);
	for (const char *const *o = source->plugin_options; o && *o; o++)
		add(&state, *o, strlen(*o));
	if (strcmp(source->plugin_path, FAKE) == 0) {
		add(&state, FAKE, sizeof(FAKE) - 1);
	} else if (!add_file(&state, source->plugin_path)) {
		randombytes_buf(nonce, sizeof(nonce));
		add(&state, nonce, sizeof(nonce));
	}
	(void)crypto_generichash_final(&state, out_identity, SAL_IDENTITY_BYTES);
}
