/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin_watch - sanitizers, and a plugin that was built without them. Include this in one file of
 * a test program that loads such a plugin.
 *
 * Tests may request more memory than exists. The leak detector sometimes crashes on the thread-local
 * memory of the plugin's threads; without scanning that memory, it reports libc's allocations there
 * as leaks.
 */
#ifndef SAL_TESTS_PLUGIN_WATCH_H
#define SAL_TESTS_PLUGIN_WATCH_H

#include <stdbool.h>

/* NOLINTBEGIN(bugprone-reserved-identifier): the sanitizers' names */
const char *__asan_default_options(void);
const char *__lsan_default_options(void);
const char *__lsan_default_suppressions(void);

const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

const char *__lsan_default_options(void)
{
	return "use_tls=0";
}

const char *__lsan_default_suppressions(void)
{
	return "leak:__cxa_thread_atexit_impl";
}
/* NOLINTEND(bugprone-reserved-identifier) */

/*
 * The thread sanitizer does not see the plugin's locks, so it reports everything that the plugin's
 * threads do as a race.
 */
static inline bool can_watch_plugins(void)
{
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
	return false;
#endif
#endif
	return true;
}

#endif
