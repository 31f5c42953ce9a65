package configs

// Explain returns, a line each, what follows from the settings of a pipeline
// that Validate accepts: how far coverage reaches and why, what is listed,
// when the full index is rebuilt, what happens on a gap.
func Explain(p *Pipeline) []string { return nil }
