//go:build !crashtest

package app

import "github.com/deltad/deltad/cmd/deltad/daemon"

// instrument does nothing: only builds for crash tests stop at named steps.
func instrument(*daemon.Options) error { return nil }
