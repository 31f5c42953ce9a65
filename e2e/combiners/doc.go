// Package combiners holds every exact combine fn to DuckDB: both compute the
// same aggregates from the same Parquet file, deltad in three tables that are
// merged. Where DuckDB is exact they agree to the last digit. Where it rounds
// on the way, deltad agrees with rational arithmetic, and the test's log shows
// how far DuckDB is from it.
//
// DELTAD_TEST_COMBINER_ROWS is the number of rows, 200,000 unless it says
// otherwise.
package combiners
