/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paths - where things are: the socket, the log, the cache, and the files we are installed with.
 *
 *     run-time   $XDG_RUNTIME_DIR/salus  or  /tmp/salus-UID                  socket, lock
 *     log        $XDG_STATE_HOME/salus, ~/.local/state/salus  or  run-time
 *     cache      $XDG_CACHE_HOME/salus, ~/.cache/salus  or  run-time/cache
 *
 * A variable counts only if it holds an absolute path, and XDG_RUNTIME_DIR only if it names a
 * directory of ours: under sudo it often names another user's, or one that no longer exists.
 *
 * Whoever can put files into the run-time directory can pose as the daemon, so it must be a real
 * directory, ours, and closed to others. It is checked, never repaired.
 *
 * Each function writes an absolute path of at most `size` bytes with its NUL into out, and returns
 * SAL_OK, or a negative code, a sentence in err and "" in out.
 *
 * Threads: any, as long as nobody changes the environment.
 */
#ifndef SAL_LINK_PATHS_H
#define SAL_LINK_PATHS_H

#include <stdbool.h>
#include <stddef.h>

struct sal_err;

/* Room for any path that the kernel takes. */
#define SAL_PATH_BYTES 4096

/* The names only: these check XDG_RUNTIME_DIR, and make nothing. */
int sal_path_runtime_dir(char *out, size_t size, struct sal_err *err);
int sal_path_default_socket(char *out, size_t size, struct sal_err *err);

/* $SALUS_SOCKET if it is set and not empty (then *out_given, which may be NULL), or the default. */
int sal_path_socket(char *out, size_t size, bool *out_given, struct sal_err *err);

/*
 * Is dir fit to be our run-time directory? -SAL_NOT_FOUND if there is none,
 * -SAL_PERMISSION_DENIED if it is a link, no directory, not ours, or open to others.
 */
int sal_path_check_private(const char *dir, struct sal_err *err);

/*
 * Is dir fit for a socket of ours that its owner chose to put there? It may be a link and may be
 * read by others, but only we or root may change what is in it. Codes as above.
 */
int sal_path_check_guarded(const char *dir, struct sal_err *err);

/*
 * As sal_path_check_private, but first makes dir, not its parents, with mode 0700 if there is none.
 */
int sal_path_make_private(const char *dir, struct sal_err *err);

/*
 * These make the directories on the way, with mode 0700. If no other directory can be
 * written, they use the run-time directory, made and checked as above.
 */
int sal_path_log(char *out, size_t size, struct sal_err *err);
int sal_path_cache_dir(char *out, size_t size, struct sal_err *err);

/*
 * A program beside the running one (`salusd`), and libsalus_pjrt.so in the lib/ beside its bin/:
 * both in the build tree and installed. -SAL_NOT_FOUND if there is no such file. Links are
 * resolved.
 */
int sal_path_program(const char *name, char *out, size_t size, struct sal_err *err);
int sal_path_plugin(char *out, size_t size, struct sal_err *err);

/* The folder of our Python modules, salus/python beside libsalus_pjrt.so. Codes as above. */
int sal_path_modules(char *out, size_t size, struct sal_err *err);

#endif
