/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flags - XLA_FLAGS of the job, for frameworks that do not send them.
 *
 * In-process, the vendor's plugin reads XLA_FLAGS itself. The plugin that compiles for us is in
 * another process, with an environment of its own. JAX sends its flags with each program, as debug
 * options. PyTorch/XLA and others send none: for them the flags become option overrides of the
 * compile options. The daemon accepts or refuses each of them, by name.
 */
#ifndef SAL_ADAPTOR_CLIENT_FLAGS_H
#define SAL_ADAPTOR_CLIENT_FLAGS_H

#include <stdbool.h>
#include <stddef.h>

/* Longest file that XLA_FLAGS may name, and longest text. */
#define ADP_FLAGS_MAX 65536

struct adp_flags {
	char *bytes; /* owned: fields to append to a CompileOptionsProto; NULL: no flags */
	size_t size;
};

/*
 * text: the value of XLA_FLAGS, NULL if it is not set. As in XLA, a text that does not start with
 * "-" names a file with the flags. False: out of memory. A file that cannot be read has no flags.
 */
bool adp_flags_init(struct adp_flags *flags, const char *text);
void adp_flags_fini(struct adp_flags *flags);

/* Has a CompileOptionsProto debug options of its own? True also if it is malformed. */
bool adp_options_have_debug(const char *options, size_t size);

#endif
