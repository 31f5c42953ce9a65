package configs

// Hash returns, in lower-case hex, the SHA-256 of a canonical form of the
// settings that decide what documents contain: layout, granularity, time
// zone, prefixes, format, window, index, errors, full.since and OutputFormat.
// Nothing else enters it. The order of fields and of key columns matters, that
// of prefixes, parameters and YAML keys does not, and equivalent spellings
// (60m and 1h, an inferred and a written granularity) have one hash.
func Hash(p *Pipeline) string { return "" }
