/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader - policies from shared objects, for `--policy ./mine.so` (core/policy/file.h).
 *
 * A file is copied into sealed memory and loaded from there (sealed.h). So nobody can change loaded
 * code, and a file that was built again is new code, although its path is the same. A loaded policy
 * stays until the loader ends: the engine may use it until then. Files with equal bytes are loaded
 * once. If several files have a policy of the same name, the newest counts.
 *
 * Loading runs the file's constructors: whoever may write the file can do all that this process
 * can. The file can also block.
 *
 * Threads: sal_loaded_open and sal_loaded_close in any thread; one thread has the loader.
 */
#ifndef SAL_LOADER_LOADER_H
#define SAL_LOADER_LOADER_H

#include <stdbool.h>
#include <stdint.h>

struct sal_err;
struct sal_policy;

/* Most loaded files. */
#define SAL_LOADED_MAX 64

/* One loaded file. */
struct sal_loaded;

struct sal_loader {
	struct sal_loaded *all[SAL_LOADED_MAX]; /* owned; oldest first */
	uint32_t count;
};

/* Does the word name a file, not a built-in policy? It does if it has a '/', as for dlopen. */
bool sal_loader_is_path(const char *word);

/* Load one file. The sentence in err starts with the path. May block. */
int sal_loaded_open(const char *path, struct sal_loaded **out_loaded, struct sal_err *err);
/* Unload a file whose policy was never in use. NULL is fine. */
void sal_loaded_close(struct sal_loaded *loaded);

/*
 * Add a loaded file. *out_policy is its policy, or that of an equal file that was loaded before.
 * -SAL_RESOURCE_EXHAUSTED: there are too many; the file is unloaded then.
 */
int sal_loader_add(struct sal_loader *loader, struct sal_loaded *take_loaded,
		   const struct sal_policy **out_policy, struct sal_err *err);
/* Both at once. */
int sal_loader_load(struct sal_loader *loader, const char *path,
		    const struct sal_policy **out_policy, struct sal_err *err);

/* The newest loaded policy of that name; NULL: none. */
const struct sal_policy *sal_loader_find(const struct sal_loader *loader, const char *name);
/* The policy at a place below loader->count; NULL if a newer one has its name. */
const struct sal_policy *sal_loader_at(const struct sal_loader *loader, uint32_t index);

/* Unload all files. Nobody may use their policies any more. */
void sal_loader_fini(struct sal_loader *loader);

#endif
