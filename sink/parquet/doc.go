// Package parquet writes documents as Parquet files for consumers, and reads them back.
//
// # What it promises
//
//  1. The bytes of the files are a function of the schema, the documents and the settings: not of how callers cut the documents into
//     batches, of GOMAXPROCS, of the time or of the build. Pages, row groups and files end after fixed numbers of rows, or earlier by
//     the weight of the rows themselves.
//  2. Documents are in strictly ascending key order, which is declared in every row group (sorting columns) and checked while writing.
//  3. Nulls are nulls and zeros are zeros; a null list is not an empty one; no value is rounded or wrapped: what the file type cannot
//     hold (a nanosecond in a timestamp of microseconds, a decimal beyond its precision) is an error that names the column.
//  4. Memory is bounded by one row group, compressed, and one page, not by the number of documents; the bytes of a file wait for the
//     store in a Spool of the caller's, of which there are two at a time: the one that fills and the one that is put.
//
// # What a file looks like
//
// zstd, data pages V1 with a checksum, 131,072 rows a row group, a bloom filter on every key column, min/max statistics and a page index.
// Key columns are required, all others optional. int32, int64, double, float, boolean and strings are what they are; timestamp is
// timestamp(micros, UTC), time is time(micros), decimal(p,s) is a DECIMAL on int32, int64 or 16 bytes by precision; lists are standard
// three-level lists, structs are groups. There are no maps, no INT96, no unsigned integers. Column names with a dot are one name. A column
// in which no value was ever seen (type null) is a string column of nulls.
//
// Integers are DELTA_BINARY_PACKED, key strings DELTA_BYTE_ARRAY, other strings DELTA_LENGTH_BYTE_ARRAY, the rest PLAIN. A chunk whose
// first page shows that strings, doubles or integers repeat has a dictionary. Doubles without one that do not compress to a quarter are
// stored, in frames of zstd like everything else.
//
// # How it is made
//
// Documents come as typed columns and stay so: a shredder splits each into leaves (Dremel's levels), a leaf holds a page of values, a
// pager makes pages of them and puts them into the leaf's chunk, and a file writes the chunks of a row group with the metadata. Encodings,
// hashes and structures of metadata are those of parquet-go.
//
// # Key values as strings
//
// Manifests and lookups spell a key column's value like this: bool true or false; integers in decimal; float and double as the shortest
// text that reads back to the same double, NaN, +Inf or -Inf; decimal with exactly its scale's digits; string as it is; bytes in
// lower-case hexadecimal; date 2006-01-02; time 15:04:05 and timestamp 2006-01-02T15:04:05Z, both with the digits of a second that are
// needed. KeyRow reads it, and what people write for it (12.5 for 12.50, +00:00 for Z).
package parquet
