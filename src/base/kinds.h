/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kinds - the memory kinds of a program's outputs on XLA:CPU.
 *
 * A framework may ask that an output be in another memory than usual (memory_kind="pinned_host").
 * The plugin for XLA:CPU reports its default memory for each output. All its memories are the
 * host's, so any kind is true. Our Python module (python/salus_client/placement.py) writes the
 * kinds that JAX asked for into the program:
 *
 *     salus.memory_kinds=pinned_host,,device;
 *
 * One name for each output; an empty one means that the plugin's report holds.
 */
#ifndef SAL_BASE_KINDS_H
#define SAL_BASE_KINDS_H

#include "base/facts.h"

/*
 * The program's outputs with the kinds that it names. The caller frees them; their texts belong to
 * the device and to `facts`. NULL: the program names none, or the list does not fit the program and
 * the device, or there is no memory.
 */
struct sal_output_facts *sal_kinds_of(struct sal_text program,
				      const struct sal_device_facts *device,
				      const struct sal_program_facts *facts);

#endif
