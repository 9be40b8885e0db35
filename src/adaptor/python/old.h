/* SPDX-License-Identifier: Apache-2.0 */
/*
 * old - what JAX before 0.6.0 needs.
 *
 * Such a JAX lowers a Python callback to a custom call that names the address of one of its own
 * objects. XLA takes handlers for such calls from its own process only. So our Python module
 * (python/salus_client/old_jax.py) lowers callbacks as a newer JAX does, and adds each function here.
 * A function stays until the process ends: a program may run after JAX has forgotten it. Only
 * functions that were added are ever found, so no record of the daemon can make us call anything
 * else.
 *
 * Such a JAX also cannot read the optimised programs of a newer XLA, and prints a stack trace for
 * each: it gets none.
 *
 * Threads: any.
 */
#ifndef SAL_ADAPTOR_PYTHON_OLD_H
#define SAL_ADAPTOR_PYTHON_OLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exported, for our Python module: this process has such a JAX. */
void salus_old_jax(void);
/* Exported. The function must stay. Returns its index in programs; 0: no memory. */
uint64_t salus_old_function(void *function);

bool adp_old_is_here(void);
/* NULL: no such function was added. */
void *adp_old_find(uint64_t index);
/* May such a program call functions that were added? */
bool adp_old_may_call(const char *program, size_t size);
/* Does the program have callbacks of an old JAX, which our Python module did not lower? */
bool adp_old_is_raw(const char *program, size_t size);

#endif
