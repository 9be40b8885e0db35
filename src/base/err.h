/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err - an error, for programs (a code) and for people (a sentence).
 *
 * A fallible function returns an int: >= 0 is success, < 0 is a negated enum sal_code. If a person
 * will read the reason, the last parameter is a struct sal_err. The caller owns it, and it may be
 * NULL. Making an error never allocates and never fails.
 *
 * SAL_BUG and SAL_ASSERT are for our own invariants, never for mistakes of a peer, a file or a
 * user. They abort the program, in every build.
 *
 * Threads: any. There is no shared state.
 */
#ifndef SAL_BASE_ERR_H
#define SAL_BASE_ERR_H

/* The status codes of PJRT, by value. */
enum sal_code {
	SAL_OK = 0,
	SAL_CANCELLED = 1,
	SAL_UNKNOWN = 2,
	SAL_INVALID_ARGUMENT = 3,
	SAL_DEADLINE_EXCEEDED = 4,
	SAL_NOT_FOUND = 5,
	SAL_ALREADY_EXISTS = 6,
	SAL_PERMISSION_DENIED = 7,
	SAL_RESOURCE_EXHAUSTED = 8,
	SAL_FAILED_PRECONDITION = 9,
	SAL_ABORTED = 10,
	SAL_OUT_OF_RANGE = 11,
	SAL_UNIMPLEMENTED = 12,
	SAL_INTERNAL = 13,
	SAL_UNAVAILABLE = 14,
	SAL_DATA_LOSS = 15,
	SAL_UNAUTHENTICATED = 16,
};

/* Starts as { 0 }, which means no error. */
struct sal_err {
	int code; /* enum sal_code, positive */
	char text[1000]; /* one sentence, no newline; ends in "..." if it is cut */
};

/*
 * Fills err, unless it is NULL, and returns -code, for `return sal_err_set(...)`. The arguments may
 * include err->text, so that a caller can put context before a reason. A code that is not an error
 * counts as SAL_UNKNOWN.
 */
int sal_err_set(struct sal_err *err, enum sal_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * The name of a code as PJRT spells it ("NOT_FOUND"); code may have either sign. "UNKNOWN" if there
 * is no such code.
 */
const char *sal_code_name(int code);

/* Prints the place and the message to stderr, and aborts. Use the macros below. */
void sal_bug(const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));

#define SAL_BUG(...) sal_bug(__FILE__, __LINE__, __VA_ARGS__)

#define SAL_ASSERT(cond)                                                            \
	do {                                                                        \
		if (__builtin_expect(!(cond), 0))                                   \
			sal_bug(__FILE__, __LINE__, "assertion failed: %s", #cond); \
	} while (0)

#endif
