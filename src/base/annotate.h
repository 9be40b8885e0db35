/* SPDX-License-Identifier: Apache-2.0 */
/*
 * annotate - macros for clang's thread-safety analysis (-Wthread-safety). They are empty for other
 * compilers.
 */
#ifndef SAL_BASE_ANNOTATE_H
#define SAL_BASE_ANNOTATE_H

#if defined(__clang__)
#define SAL_ANNOTATE(...) __attribute__((__VA_ARGS__))
#else
#define SAL_ANNOTATE(...)
#endif

#define SAL_CAPABILITY(name) SAL_ANNOTATE(capability(name))
#define SAL_ACQUIRES(what) SAL_ANNOTATE(acquire_capability(what))
#define SAL_TRY_ACQUIRES(what) SAL_ANNOTATE(try_acquire_capability(true, what))
#define SAL_RELEASES(what) SAL_ANNOTATE(release_capability(what))
#define SAL_REQUIRES(what) SAL_ANNOTATE(requires_capability(what))
#define SAL_EXCLUDES(what) SAL_ANNOTATE(locks_excluded(what))
#define SAL_ASSERTS(what) SAL_ANNOTATE(assert_capability(what))
#define SAL_UNCHECKED SAL_ANNOTATE(no_thread_safety_analysis)

#endif
