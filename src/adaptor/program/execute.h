/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execute - one iteration: a record goes to the daemon, the outputs are returned at once.
 *
 * Nothing waits. The outputs and the completion event share one promise; the completion fulfils it.
 * A donated argument is deleted at once, as JAX expects.
 */
#ifndef SAL_ADAPTOR_PROGRAM_EXECUTE_H
#define SAL_ADAPTOR_PROGRAM_EXECUTE_H

#include "adaptor/function.h"

ADP_FUNCTION(LoadedExecutable_Execute);

#endif
