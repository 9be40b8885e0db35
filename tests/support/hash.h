/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash - a running hash of records, to check that two runs made the same decisions (FNV-1a by
 * words).
 */
#ifndef SAL_TESTS_SUPPORT_HASH_H
#define SAL_TESTS_SUPPORT_HASH_H

#include <stdint.h>

#include "core/record.h"

#define HASH_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t hash_word(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x100000001b3);
	return hash ^ (hash >> 32);
}

static inline uint64_t hash_record(uint64_t hash, const struct sal_record *r)
{
	hash = hash_word(hash, r->now_ns);
	hash = hash_word(hash, r->session);
	hash = hash_word(hash, r->iteration);
	hash = hash_word(hash, r->persist_bytes);
	hash = hash_word(hash, r->ephem_bytes);
	hash = hash_word(hash, r->value);
	return hash_word(hash, (uint64_t)r->what << 32 | (uint64_t)r->lane << 16 | r->reason);
}

#endif
