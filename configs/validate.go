package configs

// Validate returns everything that is wrong as Problems, or nil: in the order
// of the file's sections and, within pipelines, in the order of the file. fns
// are the names of the combine fns that exist; "expr" need not be among them.
func (c *Config) Validate(fns []string) error { return nil }

// Warnings returns what is allowed and most likely not meant, in the order of
// Validate. It is meaningful for a Config that Validate accepts.
func (c *Config) Warnings() []Problem { return nil }
