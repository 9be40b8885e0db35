/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err - what went wrong, for programs (a code) and for people (a sentence).
 *
 * A fallible function returns an int: >= 0 is success, < 0 is a negated enum sal_code. If a person
 * will read the reason, its last parameter is a struct sal_err, owned by the caller, which may be
 * NULL. Making an error never allocates and never fails.
 *
 * SAL_BUG and SAL_ASSERT are for invariants of our own, never for what a peer, a file or a user
 * got wrong. They stop the program, in every build.
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
	char text[1000]; /* one sentence, no newline; ends in "..." if it had to be cut */
};

/*
 * Fills err, if there is one, and returns -code, so that `return sal_err_set(...)` reads well. The
 * arguments may include err->text: that is how a caller puts context before a reason. A code that
 * is no error counts as SAL_UNKNOWN.
 */
int sal_err_set(struct sal_err *err, enum sal_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The name of a code as PJRT spells it ("NOT_FOUND"), of either sign; "UNKNOWN" if there is none. */
const char *sal_code_name(int code);

/* Says where and what on stderr, and aborts. Called through the macros below. */
void sal_bug(const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));

#define SAL_BUG(...) sal_bug(__FILE__, __LINE__, __VA_ARGS__)

#define SAL_ASSERT(cond)                                                            \
	do {                                                                        \
		if (__builtin_expect(!(cond), 0))                                   \
			sal_bug(__FILE__, __LINE__, "assertion failed: %s", #cond); \
	} while (0)

#endif
