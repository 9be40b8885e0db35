/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump - programs as files, if the job's XLA_FLAGS have --xla_dump_to=FOLDER.
 *
 * XLA's compiler is in a helper of salusd and writes no files for jobs. So this process writes what
 * it has of each program, with its own rights, and with XLA's names:
 *
 *     module_0001.jit_f.before_optimizations.mlirbc     as the job sent it: StableHLO bytecode
 *     module_0001.jit_f.before_optimizations.hlo.pb     the same, if the job sent HLO
 *     module_0001.jit_f.cpu_after_optimizations.hlo.pb  as it runs: an HloProto
 *
 * XLA's text needs XLA. In a job of JAX our Python module (salus_client.dumps) prints the files as
 * text when the job ends. In other jobs a line on stderr says once that there is no text. A file
 * that cannot be written costs a line, never the program.
 *
 * Threads: any.
 */
#ifndef SAL_ADAPTOR_PROGRAM_DUMP_H
#define SAL_ADAPTOR_PROGRAM_DUMP_H

#include "adaptor/function.h"

struct adp_program;

void adp_dump(struct adp_program *compiled, const PJRT_Program *sent);

#endif
