/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/loader.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/policy/file.h"
#include "loader/sealed.h"

struct sal_loaded {
	struct sal_sealed sealed; /* owned */
	void *library; /* owned: from dlopen */
	const struct sal_policy *policy; /* borrowed: library */
};

bool sal_loader_is_path(const char *word)
{
	return strchr(word, '/');
}

static bool is_within(const struct sal_sealed *sealed, uint64_t at, uint64_t size)
{
	return at <= sealed->size && size <= sealed->size - at;
}

/*
 * dlopen() maps what the headers promise. A part beyond the end of a cut file would end the process
 * when it is used.
 */
static int check_segments(const struct sal_sealed *sealed, struct sal_err *err)
{
	const ElfW(Ehdr) *head = sealed->bytes;
	const ElfW(Phdr) * part;
	unsigned i;

	if (!is_within(sealed, 0, sizeof(*head)) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "it is no shared object: build it with cc -shared -fPIC");
	if (head->e_phentsize != sizeof(*part) || head->e_phoff % sizeof(uint64_t) != 0 ||
	    !is_within(sealed, head->e_phoff, (uint64_t)head->e_phnum * sizeof(*part)))
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "its head is broken");
	part = (const ElfW(Phdr) *)((const char *)sealed->bytes + head->e_phoff);
	for (i = 0; i < head->e_phnum; i++)
		if (!is_within(sealed, part[i].p_offset, part[i].p_filesz))
			return sal_err_set(err, SAL_INVALID_ARGUMENT, "its end is missing");
	return SAL_OK;
}

/* The reason of the last failure, without the name of the copy. */
static const char *reason(const char *copy)
{
	const char *text = dlerror();
	size_t length = strlen(copy);

	if (!text)
		return "unknown";
	if (strncmp(text, copy, length) == 0 && strncmp(text + length, ": ", 2) == 0)
		text += length + 2;
	return text;
}

static int load(struct sal_loaded *loaded, struct sal_err *err)
{
	const struct sal_policy_file *file;
	char copy[40];
	int rc;

	(void)snprintf(copy, sizeof(copy), "/proc/self/fd/%d", loaded->sealed.fd);
	loaded->library = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
	if (!loaded->library)
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "%s", reason(copy));
	file = dlsym(loaded->library, SAL_POLICY_FILE_SYMBOL);
	if (!file)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "it offers no policy: it has no line SAL_POLICY_FILE(...)");
	rc = sal_policy_file_check(file, err);
	if (rc >= 0)
		loaded->policy = file->policy;
	return rc;
}

int sal_loaded_open(const char *path, struct sal_loaded **out_loaded, struct sal_err *err)
{
	struct sal_loaded *loaded = calloc(1, sizeof(*loaded));
	struct sal_err why = { 0 };
	int rc;

	*out_loaded = NULL;
	if (!loaded)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	rc = sal_sealed_open(path, &loaded->sealed, &why);
	if (rc >= 0)
		rc = check_segments(&loaded->sealed, &why);
	if (rc >= 0)
		rc = load(loaded, &why);
	if (rc < 0) {
		sal_loaded_close(loaded);
		return sal_err_set(err, why.code, "%.200s: %s", path, why.text);
	}
	*out_loaded = loaded;
	return SAL_OK;
}

void sal_loaded_close(struct sal_loaded *loaded)
{
	if (!loaded)
		return;
	if (loaded->library)
		(void)dlclose(loaded->library);
	sal_sealed_close(&loaded->sealed);
	free(loaded);
}

static bool is_equal(const struct sal_loaded *a, const struct sal_loaded *b)
{
	return a->sealed.size == b->sealed.size &&
	       memcmp(a->sealed.bytes, b->sealed.bytes, a->sealed.size) == 0;
}

/* The newest policy of a name is the last one. */
static void move_to_end(struct sal_loader *loader, uint32_t index)
{
	struct sal_loaded *loaded = loader->all[index];

	memmove(&loader->all[index], &loader->all[index + 1],
		(loader->count - index - 1) * sizeof(struct sal_loaded *));
	loader->all[loader->count - 1] = loaded;
}

int sal_loader_add(struct sal_loader *loader, struct sal_loaded *take_loaded,
		   const struct sal_policy **out_policy, struct sal_err *err)
{
	uint32_t i;

	*out_policy = NULL;
	for (i = 0; i < loader->count && !is_equal(loader->all[i], take_loaded); i++)
		;
	if (i < loader->count) {
		sal_loaded_close(take_loaded);
		*out_policy = loader->all[i]->policy;
		move_to_end(loader, i);
		return SAL_OK;
	}
	if (loader->count == SAL_LOADED_MAX) {
		sal_loaded_close(take_loaded);
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
				   "%d policy files are loaded, and no more can be: restart to "
				   "load others",
				   SAL_LOADED_MAX);
	}
	loader->all[loader->count++] = take_loaded;
	*out_policy = take_loaded->policy;
	return SAL_OK;
}

int sal_loader_load(struct sal_loader *loader, const char *path,
		    const struct sal_policy **out_policy, struct sal_err *err)
{
	struct sal_loaded *loaded;
	int rc = sal_loaded_open(path, &loaded, err);

	*out_policy = NULL;
	return loaded ? sal_loader_add(loader, loaded, out_policy, err) : rc;
}

const struct sal_policy *sal_loader_find(const struct sal_loader *loader, const char *name)
{
	uint32_t i;

	for (i = loader->count; i > 0; i--)
		if (strcmp(loader->all[i - 1]->policy->name, name) == 0)
			return loader->all[i - 1]->policy;
	return NULL;
}

const struct sal_policy *sal_loader_at(const struct sal_loader *loader, uint32_t index)
{
	const struct sal_policy *policy = loader->all[index]->policy;

	return sal_loader_find(loader, policy->name) == policy ? policy : NULL;
}

void sal_loader_fini(struct sal_loader *loader)
{
	while (loader->count > 0)
		sal_loaded_close(loader->all[--loader->count]);
}
