// Package parquet holds deltad to files that others wrote, in good faith or
// bad.
//
//  1. Every file of the public Parquet test suite (testdata, Apache License
//     2.0, see LICENSE.txt there) is read by deltad and by DuckDB. Column by
//     column, either the values are the same, or deltad refuses with an error
//     that names object and column. Which of the two is written down for each
//     file: a change of either is a failure.
//  2. A page that has a checksum is verified: no flipped byte of one passes.
//  3. Files that claim or inflate to huge sizes are given to the real binary,
//     whose memory is measured.
package parquet
