/* SPDX-License-Identifier: Apache-2.0 */
/* Questions: whatever the line, the answer is a line. */
#include "fuzz/fuzz.h"
#include "fuzz/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct svc_server *server = fuzz_server(false);
	char *line = malloc(size + 1);
	char *answer;

	if (!line)
		abort();
	if (size > 0)
		memcpy(line, data, size);
	line[size] = '\0';
	answer = svc_admin_answer(server, -1, line);
	if (!answer || answer[0] != '{' || !strchr(answer, '\n'))
		abort();
	free(answer);
	free(line);
	return 0;
}
