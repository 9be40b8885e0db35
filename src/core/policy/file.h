/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file - how a shared object offers a policy, for `--policy ./mine.so`.
 *
 * Such a file includes this header, defines one policy (policy.h), and names the policy in one
 * line, SAL_POLICY_FILE(my_policy). Build it with `cc -shared -fPIC -I src mine.c -o mine.so`.
 *
 * A file is built for one layout of the structs that policies see. So it brings a version and the
 * sizes of these structs, and a file for another layout is refused.
 */
#ifndef SAL_CORE_POLICY_FILE_H
#define SAL_CORE_POLICY_FILE_H

#include "core/lane.h"
#include "core/policy.h"

/* Add 1 if a change of policy.h, session.h, lane.h or tuning.h needs files to be built again. */
#define SAL_POLICY_ABI 3u

/* Most bytes in the name of a file's policy, with its NUL, and in its sentences. */
#define SAL_POLICY_NAME_BYTES 16
#define SAL_POLICY_IDEA_BYTES 160

/* The symbol that a file exports. `abi` stays the first field in every version. */
struct sal_policy_file {
	uint32_t abi;
	uint32_t policy_bytes, session_bytes, lane_bytes, tuning_bytes; /* sizes of the structs */
	const struct sal_policy *policy;
};

#define SAL_POLICY_FILE_SYMBOL "sal_policy_file"

/* The symbol is weak, so several such files can be linked into one program. */
#define SAL_POLICY_FILE(chosen)                                      \
	extern const struct sal_policy_file sal_policy_file;         \
	const struct sal_policy_file sal_policy_file                 \
		__attribute__((weak, visibility("default"))) = {     \
			.abi = SAL_POLICY_ABI,                       \
			.policy_bytes = sizeof(struct sal_policy),   \
			.session_bytes = sizeof(struct sal_session), \
			.lane_bytes = sizeof(struct sal_lane),       \
			.tuning_bytes = sizeof(struct sal_tuning),   \
			.policy = &(chosen),                         \
		}

/*
 * May the engine use the file's policy? Fails with a sentence in err. -SAL_FAILED_PRECONDITION: the
 * file is built for another version. -SAL_INVALID_ARGUMENT: something in the policy is missing, too
 * large or cannot be shown. -SAL_ALREADY_EXISTS: a built-in policy has the same name.
 */
int sal_policy_file_check(const struct sal_policy_file *file, struct sal_err *err);

#endif
