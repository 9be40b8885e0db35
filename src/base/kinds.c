/* SPDX-License-Identifier: Apache-2.0 */
#include "base/kinds.h"

#include <stdlib.h>
#include <string.h>

#define HEAD "salus.memory_kinds="

/* The list in a program, without head and semicolon. at is NULL if there is none. */
static struct sal_text find_list(struct sal_text program)
{
	const char *at = memmem(program.at, program.size, HEAD, sizeof(HEAD) - 1);
	const char *end = NULL;

	if (at) {
		at += sizeof(HEAD) - 1;
		end = memchr(at, ';', (size_t)(program.at + program.size - at));
	}
	return end ? (struct sal_text){ at, (size_t)(end - at) } : (struct sal_text){ NULL, 0 };
}

/* The first name of the list. The list then begins after the comma; at is NULL after the last. */
static struct sal_text take_name(struct sal_text *list)
{
	const char *comma = memchr(list->at, ',', list->size);
	struct sal_text name = { list->at, comma ? (size_t)(comma - list->at) : list->size };

	if (comma)
		*list = (struct sal_text){ comma + 1, list->size - name.size - 1 };
	else
		*list = (struct sal_text){ NULL, 0 };
	return name;
}

static const struct sal_memory_facts *find_memory(const struct sal_device_facts *device,
						  struct sal_text kind)
{
	for (size_t i = 0; i < device->memory_count; i++) {
		struct sal_text k = device->memories[i].kind;

		if (k.size == kind.size && memcmp(k.at, kind.at, k.size) == 0)
			return &device->memories[i];
	}
	return NULL;
}

/* False: too few names, too many, or one of a memory that the device does not have. */
static bool name_all(struct sal_text list, const struct sal_device_facts *device,
		     struct sal_output_facts *outputs, size_t count)
{
	size_t i;

	for (i = 0; i < count && list.at; i++) {
		struct sal_text name = take_name(&list);
		const struct sal_memory_facts *memory = find_memory(device, name);

		if (memory)
			outputs[i].memory_kind = memory->kind;
		else if (name.size > 0)
			return false;
	}
	return i == count && !list.at;
}

struct sal_output_facts *sal_kinds_of(struct sal_text program,
				      const struct sal_device_facts *device,
				      const struct sal_program_facts *facts)
{
	struct sal_text list = find_list(program);
	size_t size = facts->output_count * sizeof(*facts->outputs);
	struct sal_output_facts *outputs;

	if (!device->is_host || !list.at || size == 0)
		return NULL;
	outputs = malloc(size);
	if (!outputs)
		return NULL;
	memcpy(outputs, facts->outputs, size);
	if (name_all(list, device, outputs, facts->output_count))
		return outputs;
	free(outputs);
	return NULL;
}
