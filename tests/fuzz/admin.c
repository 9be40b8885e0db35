/* SPDX-License-Identifier: Apache-2.0 */
/* Admin questions: the answer to any line is one line. */
#include "fuzz/fuzz.h"
#include "fuzz/server.h"
#include "service/admin/admin.h"
#include "service/admin/answer_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct svc_server *server = fuzz_server(false);
	char *line = malloc(size + 1);
	struct svc_asker asker = { .has_fd_room = true };
	struct svc_answer_line *answer;

	if (!line)
		abort();
	if (size > 0)
		memcpy(line, data, size);
	line[size] = '\0';
	answer = svc_admin_answer(server, &asker, line);
	if (!answer || answer->text[0] != '{' || !strchr(answer->text, '\n'))
		abort();
	svc_answer_line_unref(answer);
	free(line);
	return 0;
}
