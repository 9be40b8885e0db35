/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/field.h"

#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/screen.h"

const char *cli_number_text(double value, enum cli_unit unit, char *buf, size_t size)
{
	if (!(value >= 0 && value < 9e18))
		return "-";
	if (unit == CLI_SECONDS)
		return sal_duration_format(cli_seconds_to_ns(value), buf, size);
	if (unit == CLI_BYTES)
		return sal_bytes_format((uint64_t)value, buf, size);
	(void)snprintf(buf, size, unit == CLI_REAL ? "%.4g" : "%.0f", value);
	return buf;
}

const char *cli_gain_text(const json_t *device, char *buf, size_t size)
{
	const json_t *gain = json_object_get(device, "gain");
	double lanes = cli_json_number(gain, "lanes"), rate = cli_json_number(gain, "rate");

	buf[0] = '\0';
	if (lanes >= 1.05 && lanes < 1000 && rate > 0 && rate < 1000)
		(void)snprintf(buf, size, "%.1f lanes side by side: %.1fx of one", lanes, rate);
	else if (lanes > 0 && lanes < 1.05)
		(void)snprintf(buf, size, "one lane at a time");
	return buf;
}

static void add_field(struct cli_table *table, const struct cli_field *field, const json_t *object)
{
	const json_t *value = json_object_get(object, field->key);
	char buf[SAL_UNITS_TEXT];

	if (field->unit == CLI_TEXT && json_is_string(value))
		cli_table_add(table, json_string_value(value));
	else if (field->unit != CLI_TEXT && json_is_number(value))
		cli_table_add(table, cli_number_text(json_number_value(value), field->unit, buf,
						     sizeof(buf)));
	else
		cli_table_add(table, "-");
}

int cli_print_fields(const struct cli_field *fields, size_t count, const json_t *objects)
{
	struct cli_column columns[CLI_COLUMNS_MAX];
	struct cli_table table;
	size_t i, f;
	bool ok;

	SAL_ASSERT(count <= CLI_COLUMNS_MAX);
	for (f = 0; f < count; f++)
		columns[f] = fields[f].column;
	cli_table_init(&table, columns, count);
	for (i = 0; i < json_array_size(objects); i++)
		for (f = 0; f < count; f++)
			add_field(&table, &fields[f], json_array_get(objects, i));
	cli_table_fit(&table, cli_screen_width());
	ok = cli_table_print(&table, stdout);
	cli_table_fini(&table);
	return ok ? CLI_OK : cli_no_memory();
}
