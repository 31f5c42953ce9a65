//go:build integration

package parquet_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deltad/deltad/e2e/duck"
	"github.com/deltad/deltad/microbatch/scan"
)

// verdict says what becomes of a file. What is not said is: every column that
// DuckDB has, with DuckDB's values.
type verdict struct {
	file string
	rows int
	// refused has what deltad says of a column it does not read, which goes
	// on behind the column's name; a name that ends in * stands for all that
	// begin so, and "" for a file of which nothing can be read.
	refused map[string]string
	// duck has the columns DuckDB is no judge of: with which other column
	// of the file the values must agree, or what they must be.
	duck map[string]judge
}

// judge stands in for DuckDB.
type judge struct {
	why    string
	column string // has the same values, by DuckDB
	values string // the values themselves, joined by spaces
	micros bool   // DuckDB's values, which are cut to microseconds
}

const (
	noMaps    = "maps are not supported"
	lz4       = "codec LZ4 (deprecated, of several framings) is not supported; LZ4_RAW is"
	checksum  = "dictionary page: checksum mismatch"
	encrypted = "the file is encrypted"
)

func verdicts() []verdict {
	micros := judge{micros: true, why: "DuckDB keeps microseconds"}
	split := func(column string) judge {
		return judge{column: column, why: "DuckDB has BYTE_STREAM_SPLIT for floats and doubles alone"}
	}
	mapless := judge{values: "[1 2 3] [4 5 6] [7 8 9]", why: "DuckDB refuses the file because of its maps"}
	return []verdict{
		{file: "bad_data/ARROW-GH-41317.parquet", rows: 5, duck: map[string]judge{"time64_ns": micros}, refused: map[string]string{
			"timestamp_us_no_tz": "pages with 0 values, the chunk has 3", "map_*": noMaps}},
		{file: "bad_data/ARROW-GH-41321.parquet", rows: 5, duck: map[string]judge{"time64_ns": micros}, refused: map[string]string{
			"int64": "page 0: dictionary indexes of 254 bits", "large_binary": "page at 54 of the chunk: header: metadata ends early",
			"fixed_size_list_float64": "page 0: definition levels: the page ends early", "map_*": noMaps}},
		// DuckDB makes five rows of it.
		{file: "bad_data/ARROW-GH-45185.parquet", refused: map[string]string{"x": "page 0: the first row starts in its middle"}},
		{file: "bad_data/ARROW-GH-47662.parquet", refused: map[string]string{"flba_field": "page 0: the page ends early"}},
		// DuckDB does not see that there are more levels than values.
		{file: "bad_data/ARROW-RS-GH-6229-LEVELS.parquet", refused: map[string]string{"outer": "pages with more than the chunk's 1 values"}},
		{file: "bad_data/PARQUET-1481.parquet", refused: map[string]string{"Handle": "unknown physical type -7"}},

		{file: "data/alltypes_dictionary.parquet", rows: 2},
		{file: "data/alltypes_plain.parquet", rows: 8},
		{file: "data/alltypes_tiny_pages.parquet", rows: 7300},
		{file: "data/alltypes_tiny_pages_plain.parquet", rows: 7300},
		{file: "data/binary_truncated_min_max.parquet", rows: 12},
		{file: "data/byte_array_decimal.parquet", rows: 24},
		{file: "data/byte_stream_split_extended.gzip.parquet", rows: 200, duck: map[string]judge{
			"float16_byte_stream_split": split("float16_plain"), "int32_byte_stream_split": split("int32_plain"), "int64_byte_stream_split": split("int64_plain"),
			"flba5_byte_stream_split": split("flba5_plain"), "decimal_byte_stream_split": split("decimal_plain")}},
		{file: "data/column_chunk_key_value_metadata.parquet", rows: 0},
		{file: "data/data_index_bloom_encoding_stats.parquet", rows: 14},
		{file: "data/data_index_bloom_encoding_with_length.parquet", rows: 14},
		{file: "data/datapage_v1-snappy-compressed-checksum.parquet", rows: 5120},
		{file: "data/datapage_v1-uncompressed-checksum.parquet", rows: 5120},
		{file: "data/datapage_v2_empty_datapage.snappy.parquet", rows: 1},
		{file: "data/delta_binary_packed.parquet", rows: 200},
		{file: "data/delta_encoding_optional_column.parquet", rows: 100},
		{file: "data/delta_encoding_required_column.parquet", rows: 100},
		{file: "data/dict-page-offset-zero.parquet", rows: 39},
		{file: "data/encrypt_columns_and_footer.parquet.encrypted", refused: map[string]string{"": encrypted}},
		{file: "data/encrypt_columns_and_footer_bloom_filter.parquet.encrypted", refused: map[string]string{"": encrypted}},
		{file: "data/encrypt_columns_and_footer_ctr.parquet.encrypted", refused: map[string]string{"": encrypted}},
		{file: "data/encrypt_columns_plaintext_footer.parquet.encrypted", rows: 50, duck: map[string]judge{"int96_field": micros},
			refused: map[string]string{"float_field": "encrypted", "double_field": "encrypted"}},
		{file: "data/external_key_material_java.parquet.encrypted", refused: map[string]string{"": encrypted}},
		{file: "data/fixed_length_decimal.parquet", rows: 24},
		{file: "data/fixed_length_decimal_legacy.parquet", rows: 24},
		{file: "data/float16_zeros_and_nans.parquet", rows: 3},
		{file: "data/floating_orders_nan_count.parquet", rows: 50},
		{file: "data/hadoop_lz4_compressed_larger.parquet", refused: map[string]string{"a": lz4}},
		{file: "data/incorrect_map_schema.parquet", refused: map[string]string{"my_map": noMaps}},
		{file: "data/int32_with_null_pages.parquet", rows: 1000},
		{file: "data/int64_decimal.parquet", rows: 24},
		{file: "data/large_string_map.brotli.parquet", refused: map[string]string{"arr": noMaps}},
		{file: "data/list_columns.parquet", rows: 3},
		{file: "data/lz4_raw_compressed_larger.parquet", rows: 10000},
		{file: "data/map_no_value.parquet", rows: 3, duck: map[string]judge{"my_list": mapless},
			refused: map[string]string{"my_map": noMaps, "my_map_no_v": noMaps}},
		// Two chunks end in the middle of a page, by their own metadata.
		{file: "data/nation.dict-malformed.parquet", rows: 25, refused: map[string]string{
			"name": "page at 292 of the chunk: 28 bytes where the chunk has 13 left", "comment_col": "page at 1972 of the chunk: 28 bytes where the chunk has 13 left"}},
		{file: "data/nested_lists.snappy.parquet", rows: 3},
		{file: "data/nested_structs.rust.parquet", rows: 1},
		{file: "data/non_hadoop_lz4_compressed.parquet", refused: map[string]string{"c0": lz4, "c1": lz4, "v11": lz4}},
		{file: "data/null_list.parquet", rows: 1},
		{file: "data/nullable.impala.parquet", rows: 7, refused: map[string]string{
			"int_map": noMaps, "int_Map_Array": "list element: " + noMaps, "nested_struct": "field g: " + noMaps}},
		{file: "data/old_list_structure.parquet", rows: 1},
		{file: "data/overflow_i16_page_cnt.parquet", rows: 40000},
		{file: "data/plain-dict-uncompressed-checksum.parquet", rows: 1000},
		{file: "data/repeated_no_annotation.parquet", rows: 6},
		{file: "data/rle-dict-snappy-checksum.parquet", rows: 1000},
		// DuckDB does not verify checksums.
		{file: "data/rle-dict-uncompressed-corrupt-checksum.parquet", refused: map[string]string{"long_field": checksum, "binary_field": checksum}},
		{file: "data/single_nan.parquet", rows: 1},
		{file: "data/sort_columns.parquet", rows: 6},
		{file: "data/unknown-logical-type.parquet", rows: 3},
	}
}

// refusal returns what is said of a column that is refused.
func (v verdict) refusal(name string) (string, bool) {
	if r, ok := v.refused[name]; ok {
		return r, true
	}
	for pattern, r := range v.refused {
		if head, all := strings.CutSuffix(pattern, "*"); all && strings.HasPrefix(name, head) {
			return r, true
		}
	}
	return "", false
}

// TestPublicSuite reads every file, column by column.
func TestPublicSuite(t *testing.T) {
	db, err := duck.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// It would refuse a file for what its metadata says of a column's geometry.
	if err := db.Exec(t.Context(), "set enable_geoparquet_conversion = false"); err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, v := range verdicts() {
		listed = append(listed, filepath.Join("testdata", filepath.FromSlash(v.file)))
		t.Run(v.file, func(t *testing.T) {
			b, err := open(listed[len(listed)-1])
			if err != nil {
				t.Fatal(err)
			}
			if text, all := v.refused[""]; all {
				_, err := deltadColumn(t.Context(), b, "any", scan.Limits{})
				refusal(t, err, "scan "+b.key+": ", text)
				return
			}
			for _, name := range columns(t, db, v, b.key) {
				check(t, db, v, b, name)
			}
		})
	}
	files, err := filepath.Glob("testdata/*data/*")
	if slices.Sort(listed); err != nil || !slices.Equal(files, listed) {
		t.Errorf("there are the files %v, verdicts of %v, %v", files, listed, err)
	}
}

// columns returns the file's columns, as DuckDB sees them; of a file that it
// does not open, those that the verdict names.
func columns(t *testing.T, db *duck.DB, v verdict, path string) (names []string) {
	t.Helper()
	rows, err := db.Query(t.Context(), "describe select * from read_parquet(?)", path)
	for _, r := range rows {
		names = append(names, fmt.Sprint(r["column_name"]))
	}
	known := func(name string) bool {
		return strings.HasSuffix(name, "*") && slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, name[:len(name)-1]) }) ||
			slices.Contains(names, name)
	}
	for name := range v.refused {
		if err != nil {
			names = append(names, name)
		} else if !known(name) {
			t.Errorf("there is no column %s", name)
		}
	}
	for name := range v.duck {
		if err != nil {
			names = append(names, name)
		} else if !known(name) {
			t.Errorf("there is no column %s", name)
		}
	}
	return names
}

// check holds one column to its verdict.
func check(t *testing.T, db *duck.DB, v verdict, b blob, name string) {
	t.Helper()
	got, err := deltadColumn(t.Context(), b, name, scan.Limits{})
	// As of an object of which only the ranges are read that are needed.
	ranges, errRanges := deltadColumn(t.Context(), b, name, scan.Limits{Whole: 1})
	if fmt.Sprint(err) != fmt.Sprint(errRanges) || err == nil && !slices.Equal(got, ranges) {
		t.Errorf("column %s: read at once %v, by ranges %v", name, err, errRanges)
	}
	if text, refused := v.refusal(name); refused {
		refusal(t, err, "scan "+b.key+": ", "column "+name, text)
		return // DuckDB might take gigabytes to read it
	}
	if err != nil || len(got) != v.rows {
		t.Errorf("column %s: %d rows, want %d, %v", name, len(got), v.rows, err)
		return
	}
	j := v.duck[name]
	if j.values != "" {
		if have := strings.Join(got, " "); have != j.values {
			t.Errorf("column %s: %s, want %s", name, have, j.values)
		}
		return
	}
	from := name
	if j.column != "" {
		from = j.column
	}
	rows, err := db.Query(t.Context(), fmt.Sprintf("select %q as v from read_parquet(?)", from), b.key)
	if err != nil || len(rows) != len(got) {
		t.Errorf("column %s: %d rows, DuckDB has %d, %v", name, len(got), len(rows), err)
		return
	}
	differ := 0
	for i, r := range rows {
		want := ofDuck(r["v"])
		have := got[i]
		if j.micros && have != "null" {
			have = cutToMicros(have)
		}
		if differ += btoi(have != got[i]); have != want {
			t.Errorf("column %s, row %d: %s, DuckDB has %s", name, i, got[i], want)
			return
		}
	}
	if j.micros && differ == 0 {
		t.Errorf("column %s: no value has nanoseconds", name)
	}
}

// refusal checks that an error has all the parts.
func refusal(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("got %v, want a refusal with %q", err, p)
		}
	}
}

// cutToMicros cuts an instant's text after six decimals.
func cutToMicros(s string) string {
	whole, frac, ok := strings.Cut(strings.TrimSuffix(s, "Z"), ".")
	if frac = strings.TrimRight(frac[:min(6, len(frac))], "0"); !ok || frac == "" {
		return whole + "Z"
	}
	return whole + "." + frac + "Z"
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
