/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server - a real salusd in this process, on the fake device, for harnesses that need one. Made at
 * the first use, ended at exit; its socket is in a folder of its own under /tmp.
 */
#ifndef SAL_TESTS_FUZZ_SERVER_H
#define SAL_TESTS_FUZZ_SERVER_H

#include "service/server.h"

/* is_running: with a thread that serves; else the caller is the server's main thread. */
struct svc_server *fuzz_server(bool is_running);
const char *fuzz_server_path(void);

#endif
